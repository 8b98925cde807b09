"""Drives one campaign on a canary and the engine beside it: restarts of the canary, both watched at the same time."""

from __future__ import annotations

from typing import Any, Literal

import structlog

from change.engine import EngineError, EngineState
from change.restart.order import RestartResult
from change.server import ServerError, Settings
from daemon.cold_memory import cold_past
from daemon.ledger import Ledger
from daemon.replica import Replica
from daemon.tuning import FLUSHES, Approval, Mode
from store import Store, StoreError
from tuner.messages import Decision
from tuner.outer.canary_campaign import CanaryCampaign
from tuner.outer.memory import unlike
from tuner.outer.messages import (
    Await,
    Both,
    Check,
    Checked,
    Hold,
    Measure,
    OuterCommand,
    OuterEnded,
    Restart,
    Restarted,
    Seen,
)
from tuner.outer.settings import OuterSettings
from tuner.settings import Slo, TuneSettings

log = structlog.get_logger(__name__)


class CanaryTuning:
    """One campaign on a canary; call `tick` once a second until `done`.

    To its caller it is what `Tuning` is. `may_restart` tells whether the maintenance window is open. Raises nothing but
    programming errors.
    """

    def __init__(
        self,
        canary: Replica,
        base: Replica,
        store: Store,
        settings: TuneSettings,
        outer: OuterSettings,
        slo: Slo,
        *,
        engine: str,
        mode: Mode = "act",
        roll_out: bool = False,
        may_restart: Any = lambda _: True,
    ) -> None:
        if mode == "observe":
            raise ValueError("mode observe changes nothing: tune with --mode advise or act")
        self.settings = settings
        self.report: dict[str, Any] | None = None
        self.mind: CanaryCampaign | None = None
        self._outer = outer
        self._slo = slo
        self._canary = canary
        self._base = base
        self._store = store
        self._engine = engine
        self._mode: Mode = mode
        self._roll_out = roll_out and base.lane is not None
        self._may_restart = may_restart
        self._ledger = Ledger(store, engine)
        self._command: OuterCommand | None = None
        self._pending: Approval | None = None
        self._approved: set[str] = set()
        self._asked = 0
        self._flushes = 0

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
        """What a person is asked: the campaign itself, or the restart of the base."""
        return self._pending

    def approve(self) -> None:
        """Go on with what is pending."""
        if self._pending is not None:
            self._approved.add(self._pending.kind)
            self._pending = None

    async def decline(self, now: float) -> None:
        """Do not do what is pending; the campaign ends, and what held on the canary is reported."""
        pending, self._pending = self._pending, None
        if pending is not None:
            await self.stop(now, "kept", f"the {pending.kind} was declined")

    async def stop(self, now: float, decision: Decision, reason: str) -> None:
        """End it: the canary goes back to its own start-up settings with a restart."""
        if self.mind is None:
            self.report = {"decision": decision, "winner": None, "reasons": [reason]}
            return
        self._pending = None
        self.mind.stop(decision, reason)
        # The way back takes ticks, of which the caller may give no more: go as far as is possible now.
        while self.report is None:
            await self.tick(now)
            for replica in (self._canary, self._base):
                await replica.settle()

    async def leave(self, now: float, decision: Decision, reason: str) -> None:
        """End as far as no restart is needed: the process is about to end; see `OuterTuning.leave`."""
        if self.mind is None or (self.mind.serving == 0 and not isinstance(self._command, Restart)):
            await self.stop(now, decision, reason)

    def status(self) -> dict[str, Any]:
        """Where the campaign is, for a page or a progress display."""
        mind = self.mind
        if mind is None:
            return {"id": None, "phase": "waiting", "trials": 0, "report": self.report}
        serving = mind.trials[mind.serving - 1].settings if mind.serving > 0 else mind.report.incumbent
        return {
            "id": self.campaign_id,
            "phase": f"canary: {mind.phase}",
            "trials": len(mind.trials),
            "cold": {
                "trial": mind.serving or None,
                "settings": dict(serving),
                "restarting": self._canary.restarting or self._base.restarting,
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
        mind = self.mind
        if mind is None:
            await self._begin(now)
            return
        if self._ledger.overflowing:
            mind.stop("aborted", "the results could not be stored for too long")
        match self._command:
            case Restart():
                await self._restart(now, mind, self._command)
            case Measure():
                seen = Both(await self._canary.serving.observe(now), await self._base.serving.observe(now))
                await self._advance(now, mind, seen)
            case Await():
                await self._advance(now, mind, Checked(()))
            case _:
                await self._advance(now, mind, None)

    # ------------------------------------------------------------------ its parts

    async def _begin(self, now: float) -> None:
        if self._mode == "advise" and "campaign" not in self._approved:
            self._ask(
                "campaign",
                f"try start-up settings on the canary, with up to {self._outer.restarts} restarts of it and"
                f" {self._outer.lost_minutes:.0f} minutes without it",
            )
            return
        try:
            assert self._canary.lane is not None, "a canary is there to be restarted"
            canary, base = await self._canary.control.state(), await self._base.control.state()
            cold = await self._canary.lane.settings()
            beside = None if self._base.lane is None else await self._base.lane.settings()
            if (reason := _unequal(canary, base, cold, beside)) is not None:
                self.report = {"decision": "aborted", "winner": None, "reasons": [reason]}
                return
            past = cold_past(self._store, self._engine, canary.engine_version)
            self._ledger.open(base, now, self.settings, self._slo, self._outer)
        except (EngineError, ServerError, StoreError) as error:
            self.report = {"decision": "aborted", "winner": None, "reasons": [str(error)]}
            return
        self.mind = mind = CanaryCampaign(
            self.settings,
            self._outer,
            self._slo,
            cold,
            canary,
            base,
            past.memory,
            past.winners,
            past.usual_sd,
            roll_out=self._roll_out,
        )
        await self._advance(now, mind, None)

    async def _advance(self, now: float, mind: CanaryCampaign, seen: Seen | None) -> None:
        """Let the mind decide, and do what is done at once."""
        while True:
            command = mind.step(now, seen, open_at=self._may_restart)
            self._write(now, mind.events)
            mind.events.clear()
            if command != self._command and isinstance(command, Measure):
                self._canary.serving.begin()
                self._base.serving.begin()
            self._command = command
            if mind.ended:
                self.report = mind.final_report
                return
            match command:
                case Check():
                    assert self._canary.lane is not None, "a canary is there to be restarted"
                    seen = Checked(tuple(await self._canary.lane.problems(command.settings)))
                case Hold():
                    replica = self._base if command.base else self._canary
                    seen = await replica.hold(now, command, self.campaign_id)
                case _:
                    return

    async def _restart(self, now: float, mind: CanaryCampaign, command: Restart) -> None:
        replica = self._base if command.base else self._canary
        if mind.stopping and not replica.restarting and command.kind != "rollback":
            unwanted = RestartResult("refused", "preflight", "the campaign is being stopped")
            await self._advance(now, mind, Restarted(unwanted, await replica.serving.state()))
            return
        asks = self._mode == "advise" and command.base and command.kind == "promotion"
        if asks and "promotion" not in self._approved:
            self._ask("promotion", f"restart the engine with what trial {command.trial} showed on the canary")
            return
        over = await replica.restart(now, command, self.campaign_id)
        if over is None:
            return
        restarted, trouble = over
        if trouble is not None:
            mind.stop("aborted", trouble)
        await self._advance(now, mind, restarted)

    def _ask(self, kind: Literal["campaign", "promotion"], text: str) -> None:
        if self._pending is None:
            self._asked += 1
            self._pending = Approval(self._asked, kind, text)

    def _write(self, now: float, events: Any) -> None:
        trouble = self._ledger.write(now, list(events))
        if trouble is not None and any(isinstance(event, OuterEnded) for event in events):
            log.error("results cannot be stored, they wait", error=trouble)


def _unequal(canary: EngineState, base: EngineState, cold: Settings, beside: Settings | None) -> str | None:
    """Why the canary is no replica of the engine beside it, or None as far as is known."""
    if canary.boot_id == base.boot_id:
        return "tune.canary.url leads to the engine itself: give the address of the second replica"
    if canary.engine_version != base.engine_version:
        return (
            f"the canary runs {canary.engine_version} and the engine {base.engine_version}: nothing is compared "
            "between two versions"
        )
    if beside is not None and (differ := unlike({k: v for k, v in beside.items() if k in cold}, cold)):
        said = "; ".join(
            f"{m.knob} is {m.requested} beside it and {m.effective} on the canary" for m in differ
        )
        return f"the canary is no replica of the engine: {said}; start both alike"
    return None
