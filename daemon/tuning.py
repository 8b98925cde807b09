"""Drives one campaign against one engine: observe, let the mind decide, do it, write it down."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import structlog

from change.choices import worded
from change.engine import (
    EngineControl,
    EngineError,
    EngineState,
    EngineUnreachable,
    RequestPage,
    StaleEpoch,
    Values,
)
from change.journal import Journal, JournalUnwritable
from daemon.gauges import Gauges
from daemon.lanes import LaneControl
from daemon.ledger import Ledger
from daemon.promotion import Promoter
from daemon.trial_journal import TrialJournal
from store import Store, StoreError
from tuner.campaign import Campaign, MakeProposer
from tuner.messages import (
    Command,
    Decision,
    Ended,
    Observation,
    Promote,
    Renew,
    Retract,
    Switch,
)
from tuner.proposer import Proposer
from tuner.settings import Slo, TuneSettings

Mode = Literal["observe", "advise", "act"]
FLUSHES = 30
"""Seconds for which a finished campaign tries to store what is left of it."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Approval:
    """What advise mode waits for."""

    id: int
    kind: Literal["campaign", "promotion"]
    text: str


class Tuning:
    """One campaign from start to end; call `tick` once a second until `done`.

    `timer` measures how long a switch takes; None where time is simulated. Raises nothing but programming errors:
    trouble with the engine or the store ends up in the report.
    """

    def __init__(
        self,
        control: EngineControl,
        store: Store,
        journal: Journal,
        gauges: Callable[[float], Gauges],
        settings: TuneSettings,
        slo: Slo,
        *,
        engine: str,
        mode: Mode = "act",
        seed: int = 0,
        timer: Callable[[], float] | None = time.perf_counter,
        make_proposer: MakeProposer = Proposer,
        lanes: LaneControl | None = None,
        parent: int | None = None,
        cold_trial: int | None = None,
    ) -> None:
        """`lanes` adds the host's knobs to those of `control`, whose engine it talks to."""
        if mode == "observe":
            raise ValueError("mode observe changes nothing: tune with --mode advise or act")
        self.settings = settings
        self.slo = slo
        self.report: dict[str, Any] | None = None
        self.pending: Approval | None = None
        self.campaign: Campaign | None = None
        self._control: EngineControl = control if lanes is None else lanes
        self._lanes = lanes
        self._journal = journal
        self._gauges = gauges
        self._mode = mode
        self._seed = seed
        self._timer = timer
        self._make_proposer = make_proposer
        self._ledger = Ledger(store, engine, parent, cold_trial)
        self._state: EngineState | None = None
        self._since = -1
        self._trials: TrialJournal | None = None
        self._approved: set[str] = set()
        self._asked = 0
        self._held: Promote | None = None
        self._returning: Retract | None = None
        self._flushes = 0
        self._store_trouble: str | None = None

    @property
    def done(self) -> bool:
        """Whether the campaign is over, its way back gone, and its report stored (or given up on)."""
        unwritten = self._ledger.unwritten and self._flushes < FLUSHES
        return self.report is not None and self._returning is None and not unwritten

    @property
    def campaign_id(self) -> int | None:
        """The campaign's number in the store."""
        return self._ledger.campaign_id

    def approve(self) -> None:
        """Go on with what is pending."""
        if self.pending is not None:
            self._approved.add(self.pending.kind)
            self.pending = None

    async def decline(self, now: float) -> None:
        """Do not do what is pending: the campaign ends and the incumbent stays."""
        pending, self.pending, self._held = self.pending, None, None
        if pending is not None:
            await self.stop(now, "kept", f"the {pending.kind} was declined")

    async def stop(self, now: float, decision: Decision, reason: str) -> None:
        """End it now; the incumbent is put back in one call."""
        if self.campaign is None:
            self._finish_early(decision, reason)
            return
        await self._do(now, self.campaign.stop(now, decision, reason))
        self._record(now)

    async def leave(self, now: float, decision: Decision, reason: str) -> None:
        """End it as the process is about to end: the same, as it needs no restart."""
        await self.stop(now, decision, reason)

    def status(self) -> dict[str, Any]:
        """Where the campaign is, for a page or a progress display."""
        campaign = self.campaign
        if campaign is None:
            return {"id": None, "phase": "waiting", "trials": 0, "report": self.report}
        report = campaign.report
        return {
            "id": self.campaign_id,
            "phase": campaign.phase,
            "trials": len(campaign.candidates),
            "in_force": {"trial": campaign.in_force.trial, "values": self._worded(campaign.in_force.values)},
            "objective": report.objective,
            "calibration": report.calibration,
            "started": report.started,
            "minutes": self.settings.minutes,
            "report": self.report,
        }

    async def tick(self, now: float) -> None:
        """One second of the campaign."""
        if self.report is not None:
            await self._wind_up(now)
            return
        if self._ledger.overflowing:
            await self.stop(now, "aborted", "the results could not be stored for too long")
            return
        state, page = await self._look()
        if self.campaign is None:
            if state is None or not self._may_start():
                return
            self._start(now, state)
            if self.campaign is None:
                return
        campaign = self.campaign
        if self._held is not None and "promotion" in self._approved:
            promote, self._held = self._held, None
            await self._do(now, [promote])
            self._record(now)
            return  # what was read of the engine in this second is from before the promotion
        seen = self._gauges(now)
        commands = campaign.step(
            now,
            Observation(
                state,
                page,
                seen.running,
                seen.waiting,
                seen.temperature,
                seen.watts,
                seen.npus,
                seen.errors,
                seen.alert,
            ),
        )
        await self._do(now, commands)
        self._record(now)

    async def _wind_up(self, now: float) -> None:
        """What the end left to do: the way back, and results that the store did not take."""
        if self._returning is not None:
            await self._retract(now, self._returning)
        if self._ledger.unwritten and self._flushes < FLUSHES:
            self._flushes += 1
            self._say_store_trouble(self._ledger.write(now, ()))

    # Reading the engine.

    async def _look(self) -> tuple[EngineState | None, RequestPage | None]:
        try:
            self._state = await self._control.state()
        except EngineUnreachable:
            return None, None
        except EngineError as error:
            if self.campaign is None:
                self._finish_early("aborted", str(error))
            return None, None
        try:
            page = await self._control.requests(max(self._since, 0))
        except EngineError:
            return self._state, None
        if self._since < 0:
            # What finished before the campaign began says nothing about it.
            page = RequestPage(page.now, page.next_since, 0, (), page.gaps)
        self._since = page.next_since
        return self._state, page

    async def _state_or_none(self) -> EngineState | None:
        try:
            return await self._control.state()
        except EngineError:
            return None

    def _may_start(self) -> bool:
        if self._mode == "act" or "campaign" in self._approved:
            return True
        if self.pending is None:
            minutes = self.settings.minutes
            self._ask(
                "campaign", f"tune the running engine on its live traffic for up to {minutes:.0f} minutes"
            )
        return False

    def _start(self, now: float, state: EngineState) -> None:
        if not state.scheduler_known:
            engine = f"{state.engine} {state.engine_version}"
            reason = f"the plugin does not know the scheduler {state.scheduler} of {engine}"
            self._finish_early("aborted", f"{reason}: no hot changes are made there")
            return
        try:
            number = self._ledger.open(state, now, self.settings, self.slo)
            self._trials = TrialJournal(self._journal, state, number, self._lanes)
            self._journal.note_launch(state, now)
            self.campaign = Campaign(
                self.settings, self.slo, state, self._seed, self._past, self._make_proposer
            )
        except (StoreError, ValueError) as error:
            self._finish_early("aborted", str(error))
            if self.report is not None and self.campaign_id is not None:
                self._ledger.write(now, [Ended("aborted", self.report)])

    # Acting on the engine.

    async def _do(self, now: float, commands: Sequence[Command]) -> None:
        """Carry out commands; the mind's answers to their outcome may be more commands."""
        todo = list(commands)
        while todo:
            command = todo.pop(0)
            match command:
                case Renew():
                    await self._renew(command)
                case Switch():
                    todo.extend(await self._switch(now, command))
                case Promote():
                    todo.extend(await self._promote(now, command))
                case Retract():
                    await self._retract(now, command)

    async def _renew(self, command: Renew) -> None:
        state = self._state
        if state is None:
            return
        try:
            await self._control.set_knobs(
                command.values, if_epoch=state.epoch, lease_seconds=command.lease_seconds
            )
        except EngineError as error:
            # The lease runs out and the engine goes back by itself; the next look shows it.
            log.warning("lease not renewed", error=str(error))

    async def _switch(self, now: float, command: Switch) -> Sequence[Command]:
        campaign = self._running()
        if command.trial is not None and self._trials is not None:
            try:
                self._trials.intend(now, command.trial, command.values)
            except JournalUnwritable as error:
                return campaign.stop(now, "aborted", f"the journal cannot be written: {error}")
        begun = self._timer() if self._timer else None
        try:
            state = self._state or await self._control.state()
            answer = await self._control.set_knobs(
                command.values,
                if_epoch=state.epoch,
                lease_seconds=command.lease_seconds,
                revert_to=None if command.trial is None else campaign.report.incumbent,
            )
        except StaleEpoch as error:
            return campaign.stop(now, "superseded", f"somebody else changed the engine: {error}")
        except EngineUnreachable:
            # Under a lease the engine comes back to the incumbent by itself; the campaign sees the rest.
            campaign.unanswered()
            return []
        except EngineError as error:
            return campaign.refused(now, str(error))
        if begun is not None and self._timer is not None:
            took = self._timer() - begun
            campaign.report.switched(took)
            now += took  # the host's part may take seconds, and the washout begins after it
        if answer.status == "refused":
            return campaign.refused(now, answer.reason or "the engine gave no reason")
        self._state = await self._state_or_none()
        if command.trial is not None and self._trials is not None:
            self._say_store_trouble(self._trials.served(now, command.trial, answer.effective))
        return campaign.answered(now, answer)

    async def _promote(self, now: float, command: Promote) -> Sequence[Command]:
        campaign = self._running()
        if self._mode == "advise" and "promotion" not in self._approved:
            self._held = command
            self._ask("promotion", f"keep trial {command.trial}: {campaign.report.promotion_text()}")
            return []
        if campaign.ended:
            return []
        trouble = await self._promoter().keep(command.values, now)
        # In trouble too: it may have been made and not written down, and the way back asks for the epoch of now.
        self._state = await self._state_or_none()
        if trouble is not None:
            return campaign.refused(now, trouble)
        return campaign.promoted(now, self._state.epoch if self._state else None)

    async def _retract(self, now: float, command: Retract) -> None:
        """Take the promotion back; tried again each tick until the engine holds the incumbent's values."""
        trouble = await self._promoter().take_back(now)
        if trouble is not None and self._returning is None:
            log.error("the promotion could not be taken back yet, it is tried again", error=trouble)
        self._returning = None if trouble is None else command

    def _record(self, now: float) -> None:
        campaign = self._running()
        events = list(campaign.events)
        campaign.events.clear()
        left_open = self._trials.close(now, events) if self._trials else None
        self._say_store_trouble(self._ledger.write(now, events) or left_open)
        if campaign.ended and self.report is None:
            self.report = campaign.final_report

    def _say_store_trouble(self, trouble: str | None) -> None:
        if trouble != self._store_trouble:
            if trouble is not None:
                log.error("results cannot be stored, they wait", error=trouble)
            else:
                log.info("results are stored again")
            self._store_trouble = trouble

    def _ask(self, kind: Literal["campaign", "promotion"], text: str) -> None:
        self._asked += 1
        self.pending = Approval(self._asked, kind, text)

    def _promoter(self) -> Promoter:
        incumbent = self._running().report.incumbent
        return Promoter(self._control, self._journal, self._lanes, incumbent, self.campaign_id)

    def _worded(self, values: Values) -> dict[str, float | str]:
        return worded(values, {} if self._lanes is None else self._lanes.options)

    def _running(self) -> Campaign:
        assert self.campaign is not None, "the campaign has not started"
        return self.campaign

    def _past(self, fingerprint: Mapping[str, float]) -> Sequence[Mapping[str, float]]:
        try:
            return self._ledger.past_winners(fingerprint)
        except StoreError as error:
            self._say_store_trouble(str(error))
            return ()

    def _finish_early(self, decision: Decision, reason: str) -> None:
        """A campaign that never began still has a report."""
        self.report = {"decision": decision, "winner": None, "reasons": [reason]}
