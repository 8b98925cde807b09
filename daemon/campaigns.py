"""The one campaign that may run: started by a person or the schedule, driven each second, stopped at once."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from change.engine import EngineControl, EngineError
from change.journal import Journal, JournalUnwritable
from change.lock import EngineLock, LockError
from collectors.history import History
from daemon.config import TuneSection
from daemon.modes import Modes
from daemon.notices import Notices
from daemon.quiet_hours import local_minute, minute_of_day
from daemon.tuning import Tuning
from store import Store, StoreError
from tuner.settings import Slo
from web.body import NotFound, Refused


class Campaigns:
    """Starts, drives and ends campaigns."""

    def __init__(
        self,
        *,
        control: EngineControl,
        store: Store,
        journal: Journal,
        history: History,
        tune: TuneSection,
        slo: Slo,
        engine_url: str,
        modes: Modes,
        notices: Notices,
        lock_dir: Path,
        broke_off: Callable[[], None],
    ) -> None:
        """`broke_off` is called when a campaign could not end in order: its changes are ended elsewhere."""
        self.last_report: dict[str, Any] | None = None
        self._control = control
        self._store = store
        self._journal = journal
        self._history = history
        self._tune = tune
        self._slo = slo
        self._engine_url = engine_url
        self._modes = modes
        self._notices = notices
        self._lock_dir = lock_dir
        self._broke_off = broke_off
        self._tuning: Tuning | None = None
        self._lock: EngineLock | None = None
        self._last_minute: int | None = None

    @property
    def running(self) -> bool:
        """Whether a campaign runs."""
        return self._tuning is not None

    def status(self) -> dict[str, Any] | None:
        """The running campaign, or None."""
        return None if self._tuning is None else self._tuning.status()

    def pending(self) -> dict[str, Any] | None:
        """What waits for a person's answer, or None."""
        return None if self._tuning is None else self._tuning.pending

    async def start(
        self, mode: Literal["advise", "act"], minutes: float | None, now: float
    ) -> dict[str, Any]:
        """Begin a campaign; raises `Refused` with the reason, or `EngineError`."""
        if self._tuning is not None:
            raise Refused("a campaign runs already: wait for it, or `trimtab pause` to stop it")
        stopped = self._modes.stopped(now)
        if stopped is not None:
            raise Refused(f"nothing is tried now: {stopped}")
        state = await self._control.state()
        if not state.scheduler_known:
            raise Refused(
                f"the scheduler {state.scheduler} of {state.engine} {state.engine_version} is not a build that "
                "is known: hot changes are refused on it"
            )
        lock = EngineLock(self._lock_dir, state.boot_id, "campaign")
        try:
            lock.acquire()
        except LockError as error:
            raise Refused(str(error)) from error
        try:
            self._tuning = Tuning(
                self._control,
                self._store,
                self._journal,
                self._history,
                self._tune.settings(minutes),
                self._slo,
                self._engine_url,
                mode,
                secrets.randbits(32),
            )
        except BaseException:
            lock.release()
            raise
        self._lock = lock
        self._notices.over("campaign", "a new campaign begins")
        return {"started": True, "mode": mode, "minutes": self._tune.settings(minutes).minutes}

    async def tick(self, now: float) -> None:
        """Drive the campaign, or begin one that the schedule asks for."""
        if self._tuning is None:
            await self._on_schedule(now)
            return
        stopped = self._modes.stopped(now)
        if stopped is not None:
            await self.stop(stopped, now)
            return
        try:
            await self._tuning.tick(now)
        except (StoreError, JournalUnwritable) as error:
            # Nothing may be tried that cannot be written down.
            self._notices.say("store", str(error), "error")
            await self.stop("the store cannot be written", now)
            return
        except Exception as error:
            await self.stop(f"the campaign failed: {type(error).__name__}", now)
            raise
        if self._tuning.done:
            self._end()

    async def stop(self, reason: str, now: float) -> None:
        """Stop the campaign, if one runs, with the incumbent restored."""
        if self._tuning is None:
            return
        try:
            await self._tuning.stop(reason, now)
            self._notices.say("campaign", f"the campaign was stopped: {reason}", "info")
        except (EngineError, StoreError, JournalUnwritable) as error:
            # The lease takes the trial back in any case; the open entry is ended when that is possible.
            self._notices.say(
                "campaign", f"the campaign was stopped ({reason}) but could not end in order: {error}"
            )
            self._broke_off()
        finally:
            self._end()

    async def approve(self, id: str) -> dict[str, Any]:
        """Say yes to what waits."""
        self._asked(id).approve()
        return {"id": id, "answer": "approve"}

    async def decline(self, id: str) -> dict[str, Any]:
        """Say no to what waits."""
        self._asked(id).decline()
        return {"id": id, "answer": "decline"}

    def _asked(self, id: str) -> Tuning:
        pending = self.pending()
        if self._tuning is None or pending is None or str(pending["id"]) != id:
            raise NotFound(f"nothing waits under {id!r}: it was answered, or its time is over")
        return self._tuning

    def _end(self) -> None:
        if self._tuning is not None and self._tuning.report is not None:
            self.last_report = dict(self._tuning.report)
        self._tuning = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    async def _on_schedule(self, now: float) -> None:
        minute = local_minute(now)
        came, self._last_minute = minute != self._last_minute, minute
        if not came or minute not in {minute_of_day(time) for time in self._tune.schedule}:
            return
        if self._modes.mode == "observe":
            self._notices.say("schedule", "tune.schedule is set but mode observe changes nothing", "info")
            return
        try:
            await self.start(self._modes.mode, None, now)
        except (Refused, EngineError) as error:
            self._notices.say(
                "schedule", f"the campaign of {minute // 60:02d}:{minute % 60:02d} did not begin: {error}"
            )
        else:
            self._notices.over("schedule", "a campaign of the schedule begins")
