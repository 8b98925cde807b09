"""Drives the adaptive mode: looks at the engine, asks the mind, and changes limits under a lease and in the journal.

It holds the engine's lock while other values than the promoted ones serve, and gives way to whoever else wants it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from change.engine import (
    EngineControl,
    EngineError,
    EngineState,
    RequestPage,
    RequestRecord,
    StaleEpoch,
    Values,
)
from change.journal import Journal
from change.knobs import differences
from change.lock import EngineLock, LockError
from change.steps import put_back
from collectors.history import History
from daemon.gauges import FRESH_SECONDS
from daemon.modes import Modes
from daemon.notices import Notices
from daemon.quiet_hours import local_minute, minute_of_day
from daemon.sections.adaptive import AdaptiveSection
from store import StoreError
from tuner.batcher import MOVED, Batcher, GoBack, Observation, Set
from tuner.settings import Limit, Slo

TICK_SECONDS = 5.0
ACTOR = "adaptive mode"
_STANDS_BY_ITSELF = frozenset({"promotion", "reapply", "detach"})
_BEFORE_SCHEDULE = (0.0, 30.0, 60.0)
BURN_SECONDS = 60.0
BURN_FACTOR = 2.0
LEAST_BURNT = 5
"""A limit burns when so many requests of the last minute, and twice the share it allows, were beyond it."""
PAGES = 10
"""Pages of requests read in one look; what is left is read in the next."""


class Adaptive:
    """The adaptive mode of one engine; call `tick` every few seconds."""

    def __init__(
        self,
        *,
        control: EngineControl,
        journal: Journal,
        history: History,
        modes: Modes,
        notices: Notices,
        lock_dir: Path,
        section: AdaptiveSection,
        slo: Slo,
        lease_seconds: float,
        busy: Callable[[], bool],
        ended: Callable[[], None],
        schedule: Sequence[str] = (),
    ) -> None:
        """`busy` tells whether something else of ours is changing the engine; `ended` is called where an entry of the
        journal was left open."""
        self._control = control
        self._journal = journal
        self._history = history
        self._modes = modes
        self._notices = notices
        self._lock_dir = lock_dir
        self._section = section
        self._slo = slo
        self._lease_seconds = lease_seconds
        self._busy = busy
        self._ended = ended
        self._minutes = {minute_of_day(time) for time in schedule}
        self._mind = Batcher(section.settings())
        self._boot_id: str | None = None
        self._since = -1
        self._recent: deque[RequestRecord] = deque()
        self._lock: EngineLock | None = None
        self._base: dict[str, float] = {}
        self._entry: int | None = None
        self._epoch = -1
        self._off: str | None = "not looked yet"
        self._turn = asyncio.Lock()

    @property
    def active(self) -> bool:
        """Whether other values than the promoted ones serve by its doing."""
        return self._entry is not None

    def status(self) -> dict[str, Any] | None:
        """What it does now, for the page; None where it is not enabled."""
        if not self._section.enabled:
            return None
        target = self._mind.target
        return {
            "active": self.active,
            "off": self._off,
            "base": dict(self._base) if self.active else None,
            "values": None if target is None else dict(target),
            **self._mind.status(),
        }

    async def tick(self, now: float) -> None:
        """Look once, and do what the mind says."""
        if not self._section.enabled:
            return
        async with self._turn:
            await self._look(now)

    async def give_way(self, reason: str, now: float) -> None:
        """Put the promoted values back at once and let go of the engine: somebody else is about to change it."""
        if not self.active:
            return
        async with self._turn:
            if self.active:
                self._mind.dropped(now, reason)
                await self._go_back(now, reason)

    # ------------------------------------------------------------------ looking

    async def _look(self, now: float) -> None:
        try:
            state = await self._control.state()
        except EngineError:
            return  # whatever serves is under a lease, and goes back by itself
        if state.boot_id != self._boot_id:
            if self.active:
                self._close(now, "the engine has restarted since: the change went with it")
            self._boot_id, self._since, self._mind = state.boot_id, -1, Batcher(self._section.settings())
            self._recent.clear()
        elif self.active and state.epoch != self._epoch:
            self._mind.dropped(now, "the lease ran out, or somebody else changed the engine")
            self._close(now, "the engine went on without it: the lease ran out, or somebody else changed it")
        records = await self._records(now)
        self._off = self._why_off(now, state)
        command = self._mind.step(now, self._observation(now, state, records))
        match command:
            case Set():
                await self._set(now, state, command)
            case GoBack():
                await self._go_back(now, command.reason)
            case None if self.active:
                await self._renew(state)

    async def _records(self, now: float) -> tuple[RequestRecord, ...] | None:
        found: list[RequestRecord] = []
        try:
            for _ in range(PAGES):
                page: RequestPage = await self._control.requests(max(self._since, 0))
                fresh = self._since >= 0
                self._since = page.next_since
                if fresh:
                    found += page.records
                if len(page.records) < 1000:
                    break
        except EngineError:
            return None
        self._recent.extend(found)
        while self._recent and self._recent[0].finish < now - BURN_SECONDS:
            self._recent.popleft()
        return tuple(found)

    def _observation(
        self, now: float, state: EngineState, records: tuple[RequestRecord, ...] | None
    ) -> Observation:
        values = state.own(state.values)
        blocks, tokens = self._fresh("kv_cache_blocks", now), self._fresh("kv_cache_block_tokens", now)
        return Observation(
            base=self._base if self.active else values,
            values=values,
            ceilings=state.own(state.ceilings),
            floors=state.own(state.floors),
            running=self._fresh("requests_running", now),
            waiting=self._fresh("requests_waiting", now),
            kv_free_tokens=self._fresh("kv_free_tokens", now),
            kv_tokens=None if blocks is None or tokens is None else blocks * tokens,
            preemptions=self._fresh("preemptions_total", now),
            records=records,
            burning=burning(self._slo, self._recent),
            off=self._off,
        )

    def _fresh(self, name: str, now: float) -> float | None:
        sample = self._history.latest(f"trimtab_engine_{name}")
        if sample is None or not isinstance(sample.value, int | float) or now - sample.time > FRESH_SECONDS:
            return None
        return float(sample.value)

    def _why_off(self, now: float, state: EngineState) -> str | None:
        if self._modes.mode != "act":
            return f"mode {self._modes.mode} changes nothing without being asked"
        if (stopped := self._modes.stopped(now)) is not None:
            return stopped
        if self._busy():
            return "a campaign or a restart is at work"
        if any(local_minute(now + ahead) in self._minutes for ahead in _BEFORE_SCHEDULE):
            return "a campaign of the schedule is about to begin"
        if not state.scheduler_known:
            return f"the plugin does not know the scheduler {state.scheduler}"
        if state.dp_ranks > 1:
            return f"the engine has {state.dp_ranks} data-parallel ranks: what is read is of all, a limit is of each"
        if state.gate == "closed":
            return "the gate is closed"
        if state.lease_remaining_seconds is not None and not self.active:
            return "somebody else is trying values in this engine"
        try:
            if any(entry.id != self._entry for entry in self._journal.open_entries()):
                return "a change is not brought to an end yet"
            standing = self._journal.standing(state.boot_id)
        except StoreError as error:
            return str(error)
        if standing and standing[-1].kind not in _STANDS_BY_ITSELF:
            return (
                f"a change by hand is in force (entry {standing[-1].id}): roll it back to let the mode go on"
            )
        return None

    # ------------------------------------------------------------------ changing

    async def _set(self, now: float, state: EngineState, command: Set) -> None:
        if self._lock is None:
            lock = EngineLock(self._lock_dir, state.boot_id, f"the {ACTOR}")
            try:
                lock.acquire()
            except LockError as error:
                self._mind.dropped(now, str(error))
                return
            self._lock = lock
            self._base = {name: value for name, value in state.own(state.values).items() if name in MOVED}
        undo = {name: self._base[name] for name in command.values}
        try:
            entry = self._journal.open("adaptive", state.boot_id, ACTOR, command.values, undo, now)
        except StoreError as error:
            await self._fail(now, None, str(error))
            return
        before, self._entry = self._entry, entry
        try:
            if before is not None:
                self._journal.close(before, "undone", now, f"entry {entry} took its place")
            answer = await self._control.set_knobs(
                command.values, if_epoch=state.epoch, lease_seconds=self._lease_seconds, revert_to=self._base
            )
            wrong = "; ".join(differences(command.values, answer.effective))
            if answer.status == "refused" or wrong:
                await self._fail(now, entry, answer.reason or wrong or "the engine refused")
                return
            self._epoch = answer.epoch
            self._journal.mark(entry, "applied", now, answer.effective)
            self._journal.mark(entry, "verified", now, answer.effective)
        except StaleEpoch as error:
            self._mind.dropped(now, str(error))
            self._close(now, str(error))
        except (EngineError, StoreError) as error:
            await self._fail(now, entry, str(error))
        else:
            self._notices.over("adaptive", "the adaptive mode goes on")

    async def _renew(self, state: EngineState) -> None:
        target = self._mind.target
        if target is None:
            return
        try:
            await self._control.set_knobs(target, if_epoch=state.epoch, lease_seconds=self._lease_seconds)
        except EngineError as error:
            # The lease runs out and the engine goes back by itself; the next look shows it.
            self._notices.say("adaptive", f"the lease of the adaptive mode was not renewed: {error}")
        else:
            self._notices.over("adaptive", "the adaptive mode goes on")

    async def _fail(self, now: float, entry: int | None, reason: str) -> None:
        self._notices.say("adaptive", f"the adaptive mode went back to the promoted values: {reason}")
        self._mind.dropped(now, reason)
        if entry is None and not self.active:
            self._release()
            return
        await self._go_back(now, reason)

    async def _go_back(self, now: float, reason: str) -> None:
        """Put the promoted values back; if that fails the lease does it, and the journal is mended later."""
        if self._boot_id is None or not self.active:
            return
        base: Values = dict(self._base)
        try:
            how = await put_back(self._control, self._boot_id, base)
        except EngineError as error:
            self._notices.say("adaptive", f"the promoted values come back when the lease ends: {error}")
            self._leave_open()
            return
        except asyncio.CancelledError:
            # Who asked it to give way has no more time; the engine must be free for that one all the same.
            self._leave_open()
            raise
        self._close(now, f"{reason}; {how}")

    def _leave_open(self) -> None:
        self._entry = None
        self._release()
        self._ended()

    def _close(self, now: float, reason: str) -> None:
        entry, self._entry = self._entry, None
        try:
            if entry is not None:
                self._journal.close(entry, "undone", now, reason)
        except StoreError:
            self._ended()
        self._release()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None
        self._base = {}
        self._epoch = -1


def burning(slo: Slo, records: Sequence[RequestRecord] | deque[RequestRecord]) -> str | None:
    """The limit that is broken by far more of these requests than it allows, in words; None if none is."""
    for limit in slo.limits:
        taken = [seconds for record in records if (seconds := _latency(record, limit)) is not None]
        beyond = sum(seconds > limit.seconds for seconds in taken)
        if beyond >= LEAST_BURNT and beyond > BURN_FACTOR * (1 - limit.quantile) * len(taken):
            return f"{limit.key} is broken by {beyond} of {len(taken)} requests"
    return None


def _latency(record: RequestRecord, limit: Limit) -> float | None:
    match limit.metric:
        case "ttft":
            return None if record.first_token is None else record.first_token - record.arrival
        case "itl":
            return record.decode_seconds / (record.output_tokens - 1) if record.output_tokens > 1 else None
        case _:
            return record.finish - record.arrival
