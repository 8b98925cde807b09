"""Watching over what serves: is the engine still ours, and is the candidate breaking something now?"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from change.engine import EngineState, RequestRecord, Values
from change.knobs import differences
from tuner import guard
from tuner.messages import Observation
from tuner.settings import Slo
from tuner.switchback import Switchback

UNREACHABLE_SECONDS = 120.0
MOST_UNANSWERED = 30
"""Changes in a row that an engine which answers reads may leave without an answer."""
INCUMBENT_LOOKS = 3600
"""Looks at the incumbent's queue that its range comes from."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a campaign cannot go on; `restore` tells whether the incumbent is ours to put back."""

    decision: Literal["aborted", "superseded"]
    reason: str
    restore: bool
    restarted: bool = False


class Vigil:
    """One campaign's eyes between windows."""

    def __init__(self, slo: Slo, state: EngineState, max_temperature: float) -> None:
        self.queue: deque[float] = deque(maxlen=INCUMBENT_LOOKS)
        self._slo = slo
        self._boot_id = state.boot_id
        self._incumbent: Values = dict(state.values)
        self._max_temperature = max_temperature
        self._baseline = guard.Baseline(slo)
        self._watch: guard.Watch | None = None
        self._unknown = 0
        self._unreachable_since: float | None = None

    def learn(self, records: Iterable[RequestRecord]) -> None:
        """Take in the requests of a valid incumbent window."""
        self._baseline.add(records)

    def trouble(self, now: float, seen: Observation, bench: Switchback) -> Trouble | None:
        """The engine is gone, another one, or somebody else's; None lets the campaign go on."""
        self._unknown = 0 if seen.page is not None else self._unknown + 1
        if seen.state is None:
            since = self._unreachable_since = (
                now if self._unreachable_since is None else self._unreachable_since
            )
            bench.spoil("the engine was out of reach")
            if now - since > UNREACHABLE_SECONDS:
                return Trouble(
                    "aborted", f"the engine was out of reach for {UNREACHABLE_SECONDS:.0f} s", restore=True
                )
            return None
        self._unreachable_since = None
        if seen.state.boot_id != self._boot_id:
            return Trouble("superseded", "the engine was restarted", restore=False, restarted=True)
        if bench.unanswered_changes > MOST_UNANSWERED:
            return Trouble(
                "aborted", f"{bench.unanswered_changes} changes in a row had no answer", restore=True
            )
        if bench.applied_at is None or bench.epoch in (-1, seen.state.epoch):
            return None
        if bench.leased and not differences(self._incumbent, seen.state.values):
            # Our lease ran out while nobody could renew it: the engine did what it was told.
            bench.lease_ran_out(now, seen.state.epoch)
            return None
        return Trouble("superseded", "somebody else changed the engine", restore=False)

    def alarm(self, seen: Observation, bench: Switchback) -> str | None:
        """Why the candidate in force must go at once; None while the incumbent serves or all is well."""
        if bench.in_force.trial is None or bench.applied_at is None:
            self._baseline.see_errors(seen.errors)
            # Not while it drains what a candidate left behind: its range would grow with every bad candidate.
            if seen.waiting is not None and bench.measuring and bench.applied_at is not None:
                self.queue.append(seen.waiting)
            return None
        if self._watch is None or self._watch.epoch != bench.epoch:
            self._watch = guard.Watch(self._slo, bench.epoch)
        self._watch.see(seen.page.records if seen.page else (), seen.errors)
        serving = guard.Serving(seen.waiting, seen.temperature, self._unknown, seen.alert)
        longest = max(self.queue, default=0.0)
        return self._watch.verdict(serving, self._baseline, longest, self._max_temperature)
