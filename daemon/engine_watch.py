"""Know the engine: whether it answers, which boot of it this is, what it started with.

A new boot is looked at afresh: changes left open are ended, and what was promoted is put back only if the
engine started as it did then.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from change.apply import ChangeRefused, reapply_promoted, recover
from change.engine import EngineControl, EngineError, EngineState, EngineUnreachable, PluginAbsent, Values
from change.journal import Journal, JournalUnwritable
from change.knobs import differences
from change.lock import EngineLock, LockError, LockHeld
from daemon.engine_probe import Probe
from daemon.modes import Modes
from daemon.notices import Notices
from daemon.way_back import take_back
from store import StoreError

PROBE_EVERY_SECONDS = 30.0


class Probing(Protocol):
    """Asks the engine's own HTTP API what it is."""

    async def look(self) -> Probe:
        """Ask once."""
        ...


class EngineWatch:
    """Looks at the engine each tick; what it saw last is here for everybody."""

    def __init__(
        self,
        control: EngineControl,
        probe: Probing,
        journal: Journal,
        modes: Modes,
        notices: Notices,
        lock_dir: Path,
        busy: Callable[[], bool],
        unproven: Callable[[], Values | None],
    ) -> None:
        """`busy` tells whether a campaign of ours is changing the engine now; `unproven` gives the values to go back
        to where a promotion stands that was not seen through its probation."""
        self.reachable: bool | None = None
        self.state: EngineState | None = None
        self.launch: Values | None = None
        self.probe: Probe | None = None
        self._control = control
        self._probe = probe
        self._journal = journal
        self._modes = modes
        self._notices = notices
        self._lock_dir = lock_dir
        self._busy = busy
        self._unproven = unproven
        self._probe_at = 0.0
        self._boot_id: str | None = None
        self._unfinished = True
        self._reapply = True

    def look_again(self) -> None:
        """Have open changes and an unproven promotion ended at the next tick: what was changing the engine is over."""
        self._unfinished = True

    async def tick(self, now: float) -> None:
        """Look once."""
        await self._look(now)
        state = self.state
        if state is None:
            return
        if state.boot_id != self._boot_id:
            if self._boot_id is not None:
                self._notices.over("engine restarted", "the engine restarted once more")
                self._notices.say("engine restarted", "the engine restarted: it is looked at afresh", "info")
                self._probe_at = now
            self._boot_id = state.boot_id
            self.launch = None
            self._unfinished = self._reapply = True
        if not self._busy():
            await self._settle(state, now)

    async def _look(self, now: float) -> None:
        try:
            self.state = await self._control.state()
        except PluginAbsent as error:
            self._without_state(True, "plugin", f"no hot lane: {error}")
        except EngineUnreachable as error:
            self._without_state(False, "engine", str(error))
        except EngineError as error:
            self._without_state(True, "plugin", f"no hot lane: {error}")
        else:
            self.reachable = True
            self._notices.over("engine", "the engine answers again")
            self._notices.over("plugin", "the engine's plugin answers")
        if now >= self._probe_at or (self.reachable and self.probe is not None and not self.probe.reachable):
            self._probe_at = now + PROBE_EVERY_SECONDS
            self.probe = await self._probe.look()

    def _without_state(self, reachable: bool, key: str, text: str) -> None:
        self.state, self.reachable = None, reachable
        other = "plugin" if key == "engine" else "engine"
        self._notices.over(
            other, "the engine answers again" if reachable else "the engine's plugin is gone with it"
        )
        self._notices.say(key, text)

    async def _settle(self, state: EngineState, now: float) -> None:
        """End what was left open, then put back what was promoted; each only once, but until it worked."""
        try:
            if self.launch is None:
                launch = self._journal.note_launch(state, now)
                self.launch = None if launch is None else launch.values
            if self._unfinished:
                await self._end_open_changes(state, now)
                await self._take_back_unproven(state, now)
                # What could not be forgotten is looked at again.
                self._unfinished = self._unproven() is not None
            if self._reapply:
                await self._put_back_promoted(state, now)
        except LockHeld as error:
            # Somebody else is at work: it is left alone, and looked at again with the next tick.
            self._notices.say("settle", str(error), "info")
        except (StoreError, JournalUnwritable) as error:
            self._notices.say("store", str(error), "error")
        except (EngineError, LockError, ChangeRefused) as error:
            self._notices.say("settle", f"the engine is left as it is: {error}")
        else:
            self._notices.over("settle", "the engine can be settled again")
            self._notices.over("store", "the store can be written again")

    async def _end_open_changes(self, state: EngineState, now: float) -> None:
        ended = await recover(self._control, self._journal, now, lock=self._lock(state, "recovery"))
        for entry in ended:
            self._notices.say(
                f"recovered {entry.id}",
                f"change {entry.id} was left open: {entry.reason or entry.outcome}",
                "info",
            )

    async def _put_back_promoted(self, state: EngineState, now: float) -> None:
        if self._journal.promoted() is None:
            self._reapply = False
            return
        stopped = (
            "mode observe changes nothing" if self._modes.mode == "observe" else self._modes.stopped(now)
        )
        if stopped is not None:
            self._notices.say("promoted", f"what was promoted is not looked after: {stopped}", "info")
            return
        result = await reapply_promoted(self._control, self._journal, now, lock=self._lock(state, "re-apply"))
        self._reapply = False
        if result.outcome in ("nothing", "held"):
            self._notices.over("promoted", result.text)
        else:
            self._notices.over("promoted", "what was promoted is looked after again")
            level = "info" if result.outcome == "reapplied" else "warning"
            self._notices.say("promoted", result.text, level)  # type: ignore[arg-type]

    async def _take_back_unproven(self, state: EngineState, now: float) -> None:
        """In any mode: a config that nobody saw through its probation does not go on serving."""
        incumbent = self._unproven()
        promoted = self._journal.promoted()
        if incumbent is None or promoted is None:
            return
        with self._lock(state, "recovery"):
            state = await self._control.state()  # the end of an open change may just have moved it
            standing = self._journal.standing(state.boot_id)
            if standing and (
                standing[-1].campaign_id != promoted.campaign_id or differences(promoted.values, state.values)
            ):
                self._journal.clear_promoted()
                end = "is forgotten: the engine was changed on purpose since, and what else it set stays"
            else:
                trouble = await take_back(
                    self._control, self._journal, incumbent, promoted.campaign_id, "recovery", now
                )
                if trouble is not None:
                    raise ChangeRefused(
                        f"a promotion whose probation broke off could not be taken back yet: {trouble}"
                    )
                end = "was taken back"
        self._notices.say("unproven", f"a promotion whose probation broke off {end}", "info")

    def _lock(self, state: EngineState, what: str) -> EngineLock:
        return EngineLock(self._lock_dir, state.boot_id, what)
