"""The one campaign that may run: started by a person or the schedule, driven each second, stopped at once."""

from __future__ import annotations

import asyncio
import importlib
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from change.engine import EngineControl, EngineError, Values
from change.host_knobs import HOST_KNOBS
from change.journal import Journal
from change.lock import EngineLock, LockError
from change.restart.order import ColdLane
from collectors.history import History
from daemon.config import TuneSection
from daemon.host_side import HostSide
from daemon.lanes import LaneControl
from daemon.ledger import abandon_unfinished, unproven_incumbent
from daemon.modes import Modes
from daemon.notices import Notices
from daemon.schedule import Schedule
from daemon.sections.restart import RestartSection
from store import Store, StoreError
from tuner.messages import Decision
from tuner.outer.settings import OuterSettings
from tuner.settings import Slo, TuneSettings
from web.body import NotFound, Refused

if TYPE_CHECKING:
    from daemon.canary import Canary
    from daemon.canary_tuning import CanaryTuning
    from daemon.gauges import Gauges
    from daemon.outer_tuning import OuterTuning
    from daemon.tuning import Tuning

RUNS_ALREADY = "a campaign runs already: wait for it, or `trimtab pause` to stop it"


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
        ended: Callable[[], None],
        own_card: Callable[[str], bool | None] = lambda npu: True,
        draw_seed: Callable[[], int] = lambda: secrets.randbits(32),
        host: HostSide | None = None,
        clock: Callable[[], float] = time.time,
        cold_lane: ColdLane | None = None,
        restart: RestartSection | None = None,
        reapply_host: Callable[[float], Awaitable[None]] | None = None,
        canary: Canary | None = None,
    ) -> None:
        """`own_card` says which NPUs are the engine's, None for unknown; `host` is the lane whose knobs are tried too.

        `cold_lane` restarts the engine, `restart` says when and at what price; `reapply_host` sets anew after it what
        was promoted on the host; with `canary` restarts are its own.
        `ended` is called after each campaign, so that a change it left open is ended when that is possible.
        """
        self.last_report: dict[str, Any] | None = None
        self.alert: Callable[[float], str | None] = lambda now: None  # which one speaks against a candidate
        self.held: Callable[[], str | None] = lambda: None  # why none may begin now
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
        self._ended = ended
        self._own_card = own_card
        self._draw_seed = draw_seed
        self._host = host
        self._clock = clock
        self._cold_lane = cold_lane
        self._restart = RestartSection() if restart is None else restart
        self._reapply_host = reapply_host
        self._canary = canary
        self._tuning: Tuning | OuterTuning | CanaryTuning | None = None
        self._locks: list[EngineLock] = []
        self._schedule = Schedule(tune.schedule)
        self._swept = False
        self._proven: int | None = None
        self._asked_since: float | None = None
        # A tick and an order from outside must not drive the same campaign at once.
        self._turn = asyncio.Lock()

    @property
    def running(self) -> bool:
        """Whether a campaign runs."""
        return self._tuning is not None

    def status(self) -> dict[str, Any] | None:
        """The running campaign, or None."""
        return None if self._tuning is None else self._tuning.status()

    def pending(self) -> dict[str, Any] | None:
        """What waits for a person's answer, or None."""
        asked = None if self._tuning is None else self._tuning.pending
        if asked is None:
            return None
        return {"id": str(asked.id), "kind": asked.kind, "text": asked.text, "since": self._asked_since}

    async def start(
        self, mode: Literal["advise", "act"], minutes: float | None, now: float, restarts: int | None = None
    ) -> dict[str, Any]:
        """Begin a campaign; raises `Refused` with the reason, or `EngineError`."""
        if self._tuning is not None:
            raise Refused(RUNS_ALREADY)
        stopped = self._modes.stopped(now) or self.held()
        if stopped is not None:
            raise Refused(f"nothing is tried now: {stopped}")
        state = await self._control.state()
        if not state.scheduler_known:
            raise Refused(
                f"the scheduler {state.scheduler} of {state.engine} {state.engine_version} is not a build that "
                "is known: hot changes are refused on it"
            )
        self._sweep(now)
        if not self._swept:
            raise Refused("what a process before this one left is ended first: try again in a moment")
        try:
            if self._journal.open_entries("cold"):
                raise Refused("a restart is not brought to an end yet: try again once it is")
            outer = self._tune.outer(self._restart, restarts)
        except (StoreError, ValueError) as error:
            raise Refused(str(error)) from error
        settings = self._tune.settings(minutes)
        if outer.restarts and self._cold_lane is None and self._canary is None:
            raise Refused(
                "restarts are asked for and nothing here may restart the engine: set tune.restarts to 0, or configure "
                "how this engine is started"
            )
        # Only now and in a thread: the tuner's libraries are large, and a daemon that only watches needs none of them.
        await asyncio.to_thread(importlib.import_module, "daemon.tuning")
        from daemon.gauges import history_gauges
        from daemon.tuning import Tuning

        if self._tuning is not None or self.held() is not None:
            raise Refused(self.held() or RUNS_ALREADY)
        self._acquire(EngineLock(self._lock_dir, state.boot_id, "a campaign"))
        try:
            gauges = history_gauges(self._history, self._own_card, self.alert)
            if outer.restarts and self._canary is not None:
                self._tuning = await self._on_canary(self._canary, gauges, settings, outer, mode, now)
            elif outer.restarts and self._cold_lane is not None:
                from daemon.outer_tuning import OuterTuning

                self._tuning = OuterTuning(
                    self._control,
                    self._store,
                    self._journal,
                    gauges,
                    settings,
                    outer,
                    self._slo,
                    self._cold_lane,
                    engine=self._engine_url,
                    mode=mode,
                    seed=self._draw_seed(),
                    may_restart=self._restart.open_at,
                    moving=self._release,
                    moved=self._follow,
                    came_up=self._reapply_host,
                )
            else:
                lanes = await self._lanes(mode, settings.knobs)
                self._tuning = Tuning(
                    self._control,
                    self._store,
                    self._journal,
                    gauges,
                    settings,
                    self._slo,
                    engine=self._engine_url,
                    mode=mode,
                    seed=self._draw_seed(),
                    lanes=lanes,
                )
        except BaseException:
            self._release()
            if self._canary is not None:
                self._canary.release()
            raise
        self._notices.over("campaign", "a new campaign begins")
        return {"started": True, "mode": mode, "minutes": settings.minutes, "restarts": outer.restarts}

    async def tick(self, now: float) -> None:
        """Drive the campaign, or begin one that the schedule asks for."""
        if self._tuning is None:
            self._sweep(now)
            await self._on_schedule(now)
            return
        stopped = self._modes.stopped(now)
        if stopped is not None:
            await self.stop(stopped, now)
            return
        async with self._turn:
            await self._drive(now)

    async def stop(
        self, reason: str, now: float, *, may_restart: bool = True, decision: Decision = "aborted"
    ) -> None:
        """Stop the campaign, if one runs, with the incumbent restored.

        Without `may_restart` a start-up candidate that serves is left: the next start of the daemon takes it back.
        """
        tuning = self._tuning
        async with self._turn:
            if tuning is None or tuning is not self._tuning:
                return
            try:
                await (tuning.stop if may_restart else tuning.leave)(now, decision, reason)
                self._notices.say("campaign", f"the campaign was stopped: {reason}", "info")
            finally:
                # Whatever went wrong: the lease takes a trial back, and what stays open is ended later.
                if tuning is self._tuning:  # it may have been given up meanwhile, and another begun
                    self._end()

    def abandon(self, reason: str) -> None:
        """Give up a campaign that did not end in time; whoever does has put the incumbent back, or the lease does."""
        self._notices.say("campaign", f"the campaign was given up: {reason}", "info")
        self._end()

    async def approve(self, id: str) -> dict[str, Any]:
        """Say yes to what waits."""
        async with self._turn:
            self._asked(id).approve()
        return {"id": id, "answer": "approve"}

    async def decline(self, id: str, now: float) -> dict[str, Any]:
        """Say no to what waits: the campaign ends and the incumbent stays."""
        async with self._turn:
            await self._asked(id).decline(now)
        return {"id": id, "answer": "decline"}

    async def _drive(self, now: float) -> None:
        tuning = self._tuning
        if tuning is None:
            return
        try:
            await tuning.tick(now)
        except Exception:
            # A fault of the program: the engine must not be left in the middle of it.
            try:
                await tuning.stop(now, "aborted", "the campaign failed")
            finally:
                self._end()
            raise
        self._asked_since = None if tuning.pending is None else self._asked_since or now
        if tuning.done and tuning is self._tuning:
            self._end()

    def _follow(self, boot_id: str) -> str | None:
        """Take the lock of the boot that a restart left, which held it itself; why it could not be, or None."""
        try:
            self._acquire(EngineLock(self._lock_dir, boot_id, "a campaign"))
        except Refused as error:
            return str(error)
        return None

    async def _on_canary(
        self,
        canary: Canary,
        gauges: Callable[[float], Gauges],
        settings: TuneSettings,
        outer: OuterSettings,
        mode: Literal["advise", "act"],
        now: float,
    ) -> CanaryTuning:
        from daemon.canary_tuning import CanaryTuning
        from daemon.replica import Replica

        base = Replica(
            self._control,
            self._cold_lane,
            self._journal,
            gauges,
            moving=self._release,
            moved=self._follow,
        )
        return CanaryTuning(
            await canary.replica(now),
            base,
            self._store,
            settings,
            outer,
            self._slo,
            engine=self._engine_url,
            mode=mode,
            roll_out=canary.roll_out,
            may_restart=self._restart.open_at,
        )

    def _asked(self, id: str) -> Tuning | OuterTuning | CanaryTuning:
        pending = self.pending()
        if self._tuning is None or pending is None or str(pending["id"]) != id:
            raise NotFound(f"nothing waits under {id!r}: it was answered, or its time is over")
        return self._tuning

    def _end(self) -> None:
        tuning, self._tuning = self._tuning, None
        if tuning is not None and tuning.report is not None:
            self.last_report = {"campaign": tuning.campaign_id} | tuning.report
            if tuning.report["decision"] == "promoted":
                self._proven = tuning.campaign_id  # also where the store did not take its end
        self._asked_since = None
        self._swept = False  # what it left in the store, if anything, is ended with the next tick
        self._release()
        if self._canary is not None:
            self._canary.release()
        self._ended()

    async def _lanes(self, mode: str, names: Sequence[str]) -> LaneControl | None:
        """The host's knobs beside the engine's, with what they need held; None where there are none to be tried.

        Unless they are named, they are tried in mode act only. Raises `Refused` if another has the node.
        """
        if self._host is None or not (names or mode == "act") or (names and not HOST_KNOBS.keys() & {*names}):
            return None
        try:
            lanes = await LaneControl.opened(self._control, self._host, self._journal, self._clock, names)
        except EngineError as error:
            self._notices.say("host lane", f"no knob of the host is tried: {error}", "info")
            return None
        if (
            lanes.options
            and (process := await asyncio.to_thread(self._host.process_lock, "a campaign")) is not None
        ):
            self._acquire(process)
        if lanes.node_wide and (node := self._host.node_lock("a campaign")) is not None:
            self._acquire(node)
        return lanes if lanes.options else None

    def _acquire(self, lock: EngineLock) -> None:
        try:
            lock.acquire()
        except LockError as error:
            raise Refused(str(error)) from error
        self._locks.append(lock)

    def _release(self) -> None:
        while self._locks:
            self._locks.pop().release()

    def unproven(self) -> Values | None:
        """The incumbent to go back to where a promotion stands that was not seen through its probation.

        Its process died in it, or it was given up, or the way back failed. Raises `StoreError`.
        """
        promoted = None if self._tuning is not None else self._journal.promoted()
        if promoted is None or promoted.campaign_id in (None, self._proven):
            return None
        return unproven_incumbent(self._store, promoted.campaign_id)

    def _sweep(self, now: float) -> None:
        """End what a process before this one left unfinished in the store, until there is no more of it."""
        if self._swept:
            return
        try:
            promoted = self._journal.promoted()
            keep = None if promoted is None else promoted.campaign_id
            if abandon_unfinished(self._store, self._engine_url, now, keep):
                self._notices.say(
                    "unfinished", "a campaign that broke off was ended: its process had died", "info"
                )
            self._swept = self.unproven() is None
        except StoreError as error:
            self._notices.say("store", str(error), "error")

    async def _on_schedule(self, now: float) -> None:
        due = self._schedule.due(now)
        if due is None:
            return
        if self._modes.mode == "observe":
            self._notices.say("schedule", "tune.schedule is set but mode observe changes nothing", "info")
            return
        try:
            await self.start(self._modes.mode, None, now)
            self._notices.over("schedule", "a campaign of the schedule begins")
        except (Refused, EngineError) as error:
            self._notices.say("schedule", f"the campaign of {due} did not begin: {error}")
