"""Drives one outer loop against one engine: restarts through the cold lane, hot campaigns and stints between them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from change.clock import Clock
from change.engine import EngineControl, EngineError
from change.journal import Journal
from change.restart.order import ColdLane, RestartResult
from change.server import ServerError
from daemon.cold_memory import cold_past
from daemon.gauges import Gauges
from daemon.held_values import HeldValues
from daemon.ledger import Ledger
from daemon.serving import Serving
from daemon.tuning import FLUSHES, Approval, Mode, Tuning
from daemon.wall_clock import WallClock
from store import Store, StoreError
from tuner.campaign import MakeProposer
from tuner.messages import Decision
from tuner.outer.campaign import OuterCampaign
from tuner.outer.messages import (
    Agree,
    Agreed,
    Await,
    Check,
    Checked,
    Hold,
    Measure,
    OuterCommand,
    OuterEnded,
    Restart,
    Restarted,
    Seen,
    TunedHot,
    TuneHot,
)
from tuner.outer.report import LABEL
from tuner.outer.settings import OuterSettings
from tuner.proposer import Proposer
from tuner.settings import Slo, TuneSettings

STATE_TRIES = 30
"""Looks, one a second, at an engine that just came up before it counts as out of reach."""
STOP_SECONDS = 3600
"""How long a stop waits for the way back, which is a restart of its own; then it is left to the journal."""

log = structlog.get_logger(__name__)


class OuterTuning:
    """One campaign over start-up settings and hot values; call `tick` once a second until `done`.

    To its caller it is what `Tuning` is. `may_restart` tells whether the maintenance window is open; `moved` is told
    the boot id after each restart and says why the campaign may not go on there; `came_up` is called before that, with
    the engine's lock free. Raises nothing but programming errors.
    """

    def __init__(
        self,
        control: EngineControl,
        store: Store,
        journal: Journal,
        gauges: Callable[[float], Gauges],
        settings: TuneSettings,
        outer: OuterSettings,
        slo: Slo,
        lane: ColdLane,
        *,
        engine: str,
        mode: Mode = "act",
        seed: int = 0,
        timer: Callable[[], float] | None = time.perf_counter,
        make_proposer: MakeProposer = Proposer,
        may_restart: Callable[[float], bool] = lambda _: True,
        moving: Callable[[], None] = lambda: None,
        moved: Callable[[str], str | None] = lambda _: None,
        came_up: Callable[[float], Awaitable[None]] | None = None,
        clock: Clock | None = None,
    ) -> None:
        if mode == "observe":
            raise ValueError("mode observe changes nothing: tune with --mode advise or act")
        self.settings = settings
        self.outer = outer
        self.slo = slo
        self.report: dict[str, Any] | None = None
        self.mind: OuterCampaign | None = None
        self._control = control
        self._store = store
        self._journal = journal
        self._gauges = gauges
        self._lane = lane
        self._engine = engine
        self._mode: Mode = mode
        self._seed = seed
        self._timer = timer
        self._make_proposer = make_proposer
        self._may_restart = may_restart
        self._moving = moving
        self._moved = moved
        self._came_up = came_up
        self._clock: Clock = WallClock() if clock is None else clock
        self._boot_id: str | None = None
        self._ledger = Ledger(store, engine)
        self._command: OuterCommand | None = None
        self._inner: Tuning | None = None
        self._restarting: asyncio.Task[RestartResult] | None = None
        self._serving = Serving(control, gauges)
        self._values = HeldValues(control, journal)
        self._pending: Approval | None = None
        self._approved: set[str] = set()
        self._asked = 0
        self._flushes = 0
        self._state_tries = 0

    @property
    def done(self) -> bool:
        """Whether it is over and its report stored (or given up on)."""
        return self.report is not None and not (self._ledger.unwritten and self._flushes < FLUSHES)

    @property
    def campaign_id(self) -> int | None:
        """The campaign's number in the store."""
        return self._ledger.campaign_id

    @property
    def pending(self) -> Approval | None:
        """What a person is asked: the campaign itself, the cold promotion, or a hot one on the incumbent."""
        return self._pending or (self._inner.pending if self._inner is not None else None)

    def approve(self) -> None:
        """Go on with what is pending."""
        if self._pending is not None:
            self._approved.add(self._pending.kind)
            self._pending = None
        elif self._inner is not None:
            self._inner.approve()

    async def decline(self, now: float) -> None:
        """Do not do what is pending: a hot promotion is left, anything else ends the campaign."""
        pending, self._pending = self._pending, None
        if pending is not None:
            await self.stop(now, "kept", f"the {pending.kind} was declined")
        elif self._inner is not None:
            await self._inner.decline(now)

    async def stop(self, now: float, decision: Decision, reason: str) -> None:
        """End it: a hot campaign at once, then the incumbent's start-up settings come back with a restart.

        Takes as long as that restart does, at most `STOP_SECONDS`.
        """
        if self.mind is None:
            self.report = {"decision": decision, "winner": None, "reasons": [reason]}
            return
        self._pending = None
        self.mind.stop(decision, reason)
        if self._inner is not None:
            await self._inner.stop(now, decision, reason)
        # The way back takes ticks, of which the caller may give no more: they are made here.
        began = self._clock.now()
        for _ in range(STOP_SECONDS):
            await self.tick(now + self._clock.now() - began)
            if self.report is not None:
                return
            if self._restarting is not None and not self._restarting.done():
                await asyncio.wait({self._restarting}, timeout=1.0)
            else:
                await self._clock.sleep(1.0)
        self._let_go(now + self._clock.now() - began, f"{reason}; it came to no end within {STOP_SECONDS} s")

    async def leave(self, now: float, decision: Decision, reason: str) -> None:
        """End it with the process: at once, also where the way back would take a restart.

        A start-up candidate that serves goes on serving; its open journal entry has the next start bring the incumbent
        back. A restart that is under way is the cold lane's to finish.
        """
        if self.mind is None or not (self.mind.serving or self._restarting is not None):
            await self.stop(now, decision, reason)
            return
        if self._inner is not None:
            await self._inner.stop(now, decision, reason)
            self._values.restore(now)
        self._let_go(now, reason)

    def status(self) -> dict[str, Any]:
        """Where the campaign is, for a page or a progress display."""
        mind = self.mind
        if mind is None:
            return {"id": None, "phase": "waiting", "trials": 0, "report": self.report}
        inner = self._inner.status() if self._inner is not None else {}
        serving = mind.trials[mind.serving - 1].settings if mind.serving > 0 else mind.report.incumbent
        return {
            **inner,
            "id": self.campaign_id,
            "phase": mind.phase if not inner else f"{mind.phase}: {inner['phase']}",
            "trials": len(mind.trials) + inner.get("trials", 0),
            "inner": inner.get("id"),
            "cold": {
                "trial": mind.serving or None,
                "settings": dict(serving),
                "restarting": self._restarting is not None,
                "restarts": mind.spent.restarts,
                "lost_minutes": mind.spent.lost_seconds / 60.0,
            },
            "started": mind.report.started,
            "minutes": self.settings.minutes,
            "report": self.report,
        }

    async def tick(self, now: float) -> None:
        """One second of the campaign."""
        if self.report is not None:
            self._flushes += 1
            self._write(now, [])
            return
        if self._ledger.overflowing and self.mind is not None:
            self.mind.stop("aborted", "the results could not be stored for too long")
        if self.mind is None:
            await self._begin(now)
            return
        match self._command:
            case TuneHot():
                await self._tune_hot(now, self._command)
            case Restart():
                await self._restart(now, self._command)
            case Agree() if self._agreed:
                await self._advance(now, Agreed())
            case Measure() | Await() | Agree():
                await self._advance(now, await self._serving.observe(now))
            case _:
                await self._advance(now, None)

    # ------------------------------------------------------------------ its parts

    async def _begin(self, now: float) -> None:
        if self._mode == "advise" and "campaign" not in self._approved:
            self._ask(
                "campaign",
                f"tune the engine on its live traffic, with up to {self.outer.restarts} restarts and"
                f" {self.outer.lost_minutes:.0f} minutes of lost capacity",
            )
            return
        try:
            state = await self._control.state()
            cold = await self._lane.settings()
            past = cold_past(self._store, self._engine, state.engine_version)
            self._ledger.open(state, now, self.settings, self.slo, self.outer, cold)
        except (EngineError, ServerError, StoreError) as error:
            self.report = {"decision": "aborted", "winner": None, "reasons": [str(error)]}
            return
        self._boot_id = state.boot_id
        self.mind = OuterCampaign(
            self.settings, self.outer, self.slo, cold, state, past.memory, past.winners, past.usual_sd
        )
        await self._advance(now, None)

    async def _advance(self, now: float, seen: Seen | None) -> None:
        """Let the mind decide, and do what is done at once."""
        mind = self._mind_of()
        while True:
            command = mind.step(now, seen, open_at=self._may_restart)
            self._write(now, mind.events)
            mind.events.clear()
            if command != self._command and isinstance(command, Measure | Agree):
                self._serving.begin()
            self._command = command
            if not isinstance(command, Agree):
                # Also where nobody answered in time: there is nothing left to say yes to.
                self._pending = None
            if mind.ended:
                self.report = mind.final_report
                return
            match command:
                case Check():
                    seen = Checked(tuple(await self._lane.problems(command.settings)))
                case Agree() if self._agreed:
                    seen = Agreed()
                case Agree():
                    settings = ", ".join(f"{name} {value}" for name, value in command.settings.items())
                    self._ask(
                        "promotion",
                        f"keep the start-up settings of trial {command.trial} ({settings}), {LABEL}",
                    )
                    return
                case Hold():
                    seen = await self._values.hold(now, command, self.campaign_id)
                case _:
                    return

    async def _tune_hot(self, now: float, command: TuneHot) -> None:
        if self._inner is None and self._mind_of().stopping:
            # Begun now it would never end: a stop gives it no more time.
            unwanted = {"decision": "aborted", "reasons": ["the campaign is being stopped"]}
            await self._advance(now, TunedHot(unwanted, await self._serving.state()))
            return
        if self._inner is None:
            self._inner = Tuning(
                self._control,
                self._store,
                self._journal,
                self._gauges,
                self.settings,
                self.slo,
                engine=self._engine,
                # What a hot campaign finds inside a candidate goes with the candidate: only on the incumbent it stands.
                mode="act" if command.trial is not None else self._mode,
                seed=self._seed + (command.trial or 0),
                timer=self._timer,
                make_proposer=self._make_proposer,
                parent=self.campaign_id,
                cold_trial=command.trial,
            )
        inner = self._inner
        if inner.pending is not None and inner.pending.kind == "campaign":
            inner.approve()
        if command.trial is not None and inner.report is None and not self._may_restart(now):
            await inner.stop(now, "aborted", "the maintenance window closed")
        else:
            await inner.tick(now)
        if not inner.done:
            return
        self._inner = None
        if command.trial is None:
            self._values.remember()
        else:
            self._values.restore(now)
        report = inner.report or {"decision": "aborted", "reasons": ["it ended without a report"]}
        await self._advance(now, TunedHot(report, await self._serving.state()))

    async def _restart(self, now: float, command: Restart) -> None:
        if self._mind_of().stopping and self._restarting is None and command.kind != "rollback":
            unwanted = RestartResult("refused", "preflight", "the campaign is being stopped")
            await self._advance(now, Restarted(unwanted, await self._serving.state()))
            return
        if self._restarting is None:
            self._moving()
            self._restarting = asyncio.create_task(
                self._lane.restart(
                    command.settings,
                    actor=f"campaign {self.campaign_id}",
                    kind=command.kind,
                    campaign_id=self.campaign_id,
                )
            )
            self._state_tries = 0
        if not self._restarting.done():
            await asyncio.sleep(0)
            return
        result = self._restarting.result()
        state = None if result.outcome == "down" else await self._serving.state()
        if state is None and result.outcome != "down" and self._state_tries < STATE_TRIES:
            self._state_tries += 1
            return
        self._restarting = None
        if state is not None:
            self._values.note_launch(state, now)
            if self._came_up is not None and state.boot_id != self._boot_id:
                # While nobody has the engine's lock, and before anything is measured on it.
                await self._came_up(now)
            if (trouble := self._moved(state.boot_id)) is not None:
                self._mind_of().stop("aborted", trouble)
            self._boot_id = state.boot_id
        await self._advance(now, Restarted(result, state))

    # ------------------------------------------------------------------ small things

    @property
    def _agreed(self) -> bool:
        return self._mode != "advise" or "promotion" in self._approved

    def _mind_of(self) -> OuterCampaign:
        assert self.mind is not None, "the outer loop has not begun"
        return self.mind

    def _let_go(self, now: float, reason: str) -> None:
        mind = self._mind_of()
        self._pending = self._inner = None
        mind.leave(now, f"{reason}: what serves is left as it is until the daemon starts again")
        self._write(now, mind.events)
        mind.events.clear()
        self.report = mind.final_report

    def _ask(self, kind: Any, text: str) -> None:
        if self._pending is None:
            self._asked += 1
            self._pending = Approval(self._asked, kind, text)

    def _write(self, now: float, events: Any) -> None:
        trouble = self._ledger.write(now, list(events))
        if trouble is not None and any(isinstance(event, OuterEnded) for event in events):
            log.error("results cannot be stored, they wait", error=trouble)
