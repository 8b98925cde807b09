"""A troubled replica with the second mind beside it, in virtual time: sources, history, rules, playbooks and hands.

Everything between the sources and the hands is what the daemon runs: the collectors' parsers, the derived figures, the
evaluator, the runner and its driver.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import structlog
from sqlalchemy import select

from collectors.derived import DerivedCollector
from collectors.history import History
from collectors.sample import CollectorError, Sample, labels
from daemon.acting.deed import RunContext
from daemon.acting.driver import PlaybookDriver
from daemon.acting.hands import ActingHands
from daemon.acting.quiet import QuietTimes, Unknown
from daemon.acting.quiet_walks import QuietWalks
from daemon.modes import Modes
from daemon.notices import Notices
from daemon.sections.restart import RestartSection
from rules.alert import Alert
from rules.evaluator import Evaluator
from rules.history_readings import HistoryReadings
from rules.playbook.messages import ENDED
from rules.playbook.rails import Limits
from rules.playbook.runner import Runner
from rules.playbook.schema import Playbook
from rules.rule import RuleGroup
from sim.faults.hands import SimulatedHands
from sim.faults.node import TroubledNode
from sim.faults.readings import ReplicaReadings
from sim.virtual_time import NodeClock
from store import open_store
from store.alert_models import PlaybookRun

ENGINE = "replica"
DERIVED = "derived"
DERIVED_SECONDS = 10.0
WINDOW = "03:00-05:00"
"""The maintenance window of the replica's operator, in the node's hours."""
FAILED_READING = 0.0005
"""Share of a source's readings that fail for no reason of the replica."""
_UNHEARD = structlog.wrap_logger(structlog.ReturnLogger(), processors=[])


@dataclass(frozen=True, slots=True)
class Walk:
    """A run as the store has it; times are Unix seconds."""

    playbook: str
    alert: str
    state: str
    cause: str | None
    reason: str | None
    queued: float
    ended: float | None

    @property
    def walked(self) -> bool:
        """Whether it did more than wait or be refused."""
        return self.state not in ("queued", "skipped")

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.state in ENDED


class _HandsOfRuns:
    """The same hands for every run."""

    def __init__(self, hands: SimulatedHands) -> None:
        self._hands = hands

    def of(self, _: RunContext, __: object = None) -> SimulatedHands:
        """See `ActingHands`."""
        return self._hands


class World:
    """One node and what watches it. `coarse` makes readings and looks rarer, for days that are lived through."""

    def __init__(
        self,
        node: TroubledNode,
        groups: Sequence[RuleGroup],
        playbooks: Mapping[str, Playbook],
        nowhere: Path,
        *,
        coarse: float = 1.0,
    ) -> None:
        """`nowhere` is a folder without a pause or a kill-switch in it."""
        self.node = node
        self.fired: list[Alert] = []
        """Alerts as they began to fire."""
        self._history = History()
        self._readings = HistoryReadings(self._history, self._present)
        self._restarted: float | None = None
        self._sources = ReplicaReadings(node)
        self._derived = DerivedCollector(self._history, reading_seconds=float("inf"))
        self._coarse = coarse
        self._due: dict[str, float] = {}
        self._store = open_store("sqlite:///:memory:")
        self._evaluator = Evaluator(groups, self._store, ENGINE)
        clock = NodeClock(node)
        quiet = QuietTimes(RestartSection(window=[WINDOW]), self._history)
        self.hands = SimulatedHands(node, clock, _asked(quiet))
        self._driver = PlaybookDriver(
            Runner(ENGINE, playbooks, Limits(), self._store),
            playbooks,
            cast(ActingHands, _HandsOfRuns(self.hands)),
            self._readings,
            Modes("act", nowhere / "pause", nowhere / "stop", ()),
            Notices(clock.now, _UNHEARD),
            clock.now,
            windows={rule.name: rule.for_seconds for group in groups for rule in group.rules},
            quiet=QuietWalks(quiet, playbooks),
        )

    def _present(self, now: float) -> Iterator[Sample]:
        """What the daemon's exporter would give of itself."""
        yield from self._readings.ages(now)
        if self.hands.restarting:
            self._restarted = now
        yield Sample("trimtab_restart_active", float(self.hands.restarting), now)
        if self._restarted is not None:
            yield Sample("trimtab_restart_time_seconds", self._restarted, now)

    async def live(self, until: float, enough: Callable[[World], bool]) -> None:
        """Live up to `until` (Unix seconds), or until it is enough; inside `sim.virtual_time.live`."""
        while self.node.now < until and not enough(self):
            await asyncio.sleep(self._coarse)
            now = self.node.now
            await self._read(now)
            evaluated = self._evaluator.tick(self._readings, now)
            self.fired += [alert for alert in evaluated.changes if alert.state == "firing"]
            for told, state in ((self._driver.fired, "firing"), (self._driver.resolved, "resolved")):
                told([alert for alert in evaluated.changes if alert.state == state], now)
            await self._driver.tick(now)
        await self._driver.finish()

    def walks(self) -> list[Walk]:
        """Every run there was, in order."""
        with self._store.reading() as session:
            rows = session.scalars(select(PlaybookRun).order_by(PlaybookRun.id)).all()
            return [
                Walk(
                    row.playbook,
                    str(row.labels.get("alertname", "")),
                    row.state,
                    row.cause,
                    row.reason,
                    row.queued,
                    row.ended,
                )
                for row in rows
            ]

    def troubles(self) -> dict[str, str]:
        """Rules whose evaluation failed, with the error."""
        return {
            rule.rule: rule.last_error
            for group in self._evaluator.health()
            for rule in group.rules
            if rule.last_error is not None
        }

    def close(self) -> None:
        """Let the store go."""
        self._store.close()

    async def _read(self, now: float) -> None:
        for name, (seconds, read) in self._sources.sources.items():
            if not self._is_due(name, seconds, now):
                continue
            try:
                if self._sources.fails(FAILED_READING):
                    raise CollectorError(f"{name}: no answer in time")
                samples = read(now)
            except CollectorError:
                self._history.end(name)
                self._said(name, False, now)
                continue
            self._history.add(samples, name)
            self._said(name, True, now)
        if self._is_due(DERIVED, DERIVED_SECONDS, now):
            self._history.add(await self._derived.collect(now), DERIVED)
            self._said(DERIVED, True, now)

    def _is_due(self, name: str, seconds: float, now: float) -> bool:
        if now < self._due.get(name, 0.0) - 1e-3:
            return False
        self._due[name] = now + max(seconds, self._coarse)
        return True

    def _said(self, name: str, success: bool, now: float) -> None:
        # As `collectors.runner` tells it, less how long a reading took.
        self._history.add([Sample("trimtab_collector_success", float(success), now, labels(collector=name))])


@contextmanager
def quietly() -> Iterator[None]:
    """Let nothing be logged meanwhile: in hours of a node's life there is too much."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)


def _asked(quiet: QuietTimes) -> Callable[[float], bool]:
    def test(now: float) -> bool:
        try:
            return quiet.next(now) <= now
        except Unknown:
            return False

    return test
