"""The loop that walks playbooks: triggers in, the mind asked each second, its commands carried out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import structlog

from collectors.sample import Labels
from daemon.acting.condition import EngineCondition
from daemon.acting.counts import Counts
from daemon.acting.deed import RunContext
from daemon.acting.hands import ActingHands
from daemon.acting.pledge import Pledge
from daemon.acting.quiet_walks import QuietWalks
from daemon.acting.triggers import PLAYBOOK_LABEL, Silences, Triggers, manual
from daemon.acting.work import Workers
from daemon.alerting.addressee import Addressee
from daemon.modes import Modes
from daemon.notices import Notices
from rules.alert import Alert
from rules.playbook.messages import (
    ENDED,
    Answer,
    AskApproval,
    Command,
    DoAct,
    Note,
    PlanAct,
    RunChanged,
    RunState,
    TakeCapture,
    Trigger,
    UndoAct,
)
from rules.playbook.runner import Runner
from rules.playbook.schema import Act, Playbook
from rules.playbook.views import RunView, Status
from rules.readings import Readings
from store import StoreError
from web.body import NotFound, Refused

_WORSE: frozenset[RunState] = frozenset({"failed", "inconclusive", "abandoned"})

_log = structlog.get_logger("trimtab")


class PlaybookDriver:
    """Everything about runs that is not the mind. Only `tick` and `finish` wait for anything."""

    def __init__(
        self,
        runner: Runner,
        playbooks: Mapping[str, Playbook],
        hands: ActingHands,
        readings: Readings,
        modes: Modes,
        notices: Notices,
        clock: Callable[[], float],
        *,
        silences: Silences | None = None,
        windows: Mapping[str, float] | None = None,
        of_rule: Mapping[str, str | None] | None = None,
        addressee: Addressee | None = None,
        pledge: Pledge | None = None,
        condition: EngineCondition | None = None,
        quiet: QuietWalks | None = None,
        finish_profile_seconds: float = 600.0,
    ) -> None:
        """`windows` are the `for` of each rule in seconds, `of_rule` the playbook of each, by the rule's name.

        Without `addressee` no alert from outside starts anything.
        """
        self.counts = Counts()
        self._runner = runner
        self._playbooks = playbooks
        self._readings = readings
        self._modes = modes
        self._notices = notices
        self._clock = clock
        self._windows = windows or {}
        self._of_rule = of_rule or {}
        self._addressee = addressee
        self._pledge = pledge
        self._rescues = {name for name in self._of_rule.values() if name and _restarts(playbooks, name)}
        self._condition = condition
        self._quiet = quiet
        self._triggers = Triggers(silences, clock)
        self._workers = Workers(
            hands,
            clock,
            heard=self.counts.heard,
            halted=modes.halted,
            finish_profile_seconds=finish_profile_seconds,
        )
        self._contexts: dict[int, RunContext] = {}
        self._answers: list[Answer] = []
        self._recovered = False
        self._stuck: set[int] = set()
        self._status = Status(())

    # ------------------------------------------------------------------ why playbooks walk

    def fired(self, alerts: Sequence[Alert], now: float) -> None:
        """See `daemon.alerting.sinks.RunSink`."""
        for alert in alerts:
            if alert.playbook is not None:
                started = alert.active_at if alert.fired_at is None else alert.fired_at
                window = self._windows.get(alert.rule, 0.0)
                self._take(Trigger(alert.playbook, "rule", alert.labels, alert.fingerprint, started, window))

    def resolved(self, alerts: Sequence[Alert], now: float) -> None:
        """See `daemon.alerting.sinks.RunSink`."""
        for alert in alerts:
            self.over(alert.fingerprint, now)

    def received(self, labels: Labels, fingerprint: str, starts_at: float) -> None:
        """Take an alert that Alertmanager's webhook brought, firing and for the first time."""
        if self._addressee is None:
            return
        name = self._addressee.playbook(labels, self._of_rule)
        if name is None:
            # One key for all: names come from outside.
            self._notices.say(
                "no playbook",
                f"alert {dict(labels).get('alertname', '')[:64]!r} of Alertmanager's starts no playbook: it has no "
                f"label {PLAYBOOK_LABEL!r} and no rule of that name has one, or it is another replica's",
                "info",
            )
            return
        window = self._windows.get(dict(labels).get("alertname", ""), 0.0)
        self._take(Trigger(name, "alertmanager", labels, fingerprint, starts_at, window))

    def over(self, fingerprint: str, now: float) -> None:
        """An alert is over, of whichever source: what has changed nothing for it yet need not."""
        self._triggers.over(fingerprint)
        self._runner.resolved(fingerprint, now)
        if self._quiet is not None:
            self._quiet.over(fingerprint)

    def order(self, name: str, labels: Mapping[str, str], *, dry_run: bool) -> dict[str, Any]:
        """Walk a playbook by a person's order; raises `NotFound`, or `Refused` with the reason."""
        if name not in self._playbooks:
            known = ", ".join(sorted(self._playbooks)) or "none"
            raise NotFound(f"there is no playbook {name!r}: known are {known}")
        now = self._clock()
        halted = self._modes.halted()
        if halted is not None and not dry_run:
            raise Refused(f"no playbook walks now: {halted}")
        if not self._recovered:
            raise Refused("what a process before this one left is looked at first: try again in a moment")
        pairs = tuple(sorted((str(key), str(value)) for key, value in labels.items()))
        before = {run.run_id for run in self._status.runs}
        self._runner.take([manual(name, pairs, now, dry_run=dry_run)], now)
        new = [
            one
            for one in self._step(now)
            if isinstance(one, RunChanged) and one.playbook == name and one.run_id not in before
        ]
        if not new:
            raise Refused(self._status.trouble or "the run was not begun: see the log")
        # The newest is the order's: what was taken in before it may have begun others. Its last word is how it stands.
        last = sorted(new, key=lambda one: one.run_id)[-1]
        return {"run": last.run_id, "state": last.state, "reason": last.reason, "dry_run": dry_run}

    # ------------------------------------------------------------------ the loop

    @property
    def acting(self) -> bool:
        """Whether a run has changed something and has not ended."""
        return self._runner.acting

    async def tick(self, now: float) -> None:
        """One second of all runs."""
        if self._condition is not None:
            await self._condition.tick(now)
        if self._pledge is not None:
            await self._pledge.tick(now, self._would_restart(now))
        if not self._recovered and not self._recover(now):
            return
        if self._quiet is not None:
            for trigger in self._quiet.due(now, self._status.cooling):
                self._triggers.add(trigger)
        self._runner.take(self._triggers.ready(), now)
        self._step(now)

    def _would_restart(self, now: float) -> bool:
        """Whether an engine that ended by itself now would be started again from here."""
        if self._modes.mode != "act" or self._modes.halted() is not None:
            return False
        if self._condition is None or not self._condition.served:
            return False
        return any(self._runner.allows(name, "restart", now) for name in self._rescues)

    def leave_the_past(self) -> None:
        """Look at nothing that a process before this one left: for a look that must not end it."""
        self._recovered = True

    async def finish(self) -> None:
        """The daemon ends: what is under way gets a moment, the rest is the next start's."""
        await self._triggers.finish()
        await self._workers.finish()
        if self._pledge is not None:
            await self._pledge.tick(self._clock(), False)

    def _take(self, trigger: Trigger) -> None:
        if trigger.playbook not in self._playbooks:
            # One key for all: names come from outside.
            self._notices.say(
                "unknown playbook",
                f"an alert asks for playbook {trigger.playbook[:64]!r}, which there is not",
            )
            return
        if self._quiet is not None:
            self._quiet.fires(trigger)
        self._triggers.add(trigger)

    def _recover(self, now: float) -> bool:
        try:
            self._runner.recover(now)
        except StoreError as error:
            self._notices.say("playbooks", f"no playbook walks: {error}", "error")
            return False
        self._recovered = True
        self._status = self._runner.status(now)
        return True

    def _step(self, now: float) -> Sequence[Command]:
        results, answers = self._workers.results(), self._answers
        self._answers = []
        try:
            commands = self._runner.tick(
                now, self._readings, self._modes.mode, self._modes.halted(), results, answers
            )
        except BaseException:
            self._workers.give_back(results)
            self._answers = [*answers, *self._answers]
            raise
        # Before their effects: what a command is about is read from it.
        self._status = self._runner.status(now)
        self._carry_out(commands)
        self._tell_trouble()
        return commands

    def _carry_out(self, commands: Sequence[Command]) -> None:
        for command in commands:
            match command:
                case PlanAct() | DoAct() | UndoAct() | TakeCapture():
                    self._workers.begin(command, self._context(command.run_id))
                case RunChanged():
                    self._changed(command)
                case Note():
                    _log.debug(command.text, run=command.run_id, step=command.step, kind=command.kind)
                case AskApproval():
                    context = self._context(command.run_id)
                    self._notices.say(
                        f"{context.run} asks", f"{context.actor} asks: {command.plan.told}", "info"
                    )
                case _:
                    _log.error(
                        "a command that is the runner's own was handed out", command=repr(command)[:200]
                    )

    def _changed(self, change: RunChanged) -> None:
        self.counts.changed(change)
        context = RunContext(f"run-{change.run_id}", change.playbook, change.target)
        self._contexts[change.run_id] = context
        if change.state != "waiting_approval":
            self._notices.over(f"{context.run} asks", f"{context.run} waits for no answer any more")
        if change.state in ENDED:
            self._contexts.pop(change.run_id, None)
            if self._quiet is not None:
                self._quiet.ended(change)
            why = "" if change.reason is None else f": {change.reason}"
            text = f"{context.actor} ({context.target}) ended {change.state}{why}"
            _log.info(text, cause=change.cause)
            self._notices.say(
                f"playbook {change.playbook}", text, "warning" if change.state in _WORSE else "info"
            )
        else:
            _log.info(f"{context.actor} ({context.target}) is {change.state}", reason=change.reason)

    def _context(self, run_id: int) -> RunContext:
        if run_id not in self._contexts:
            found = [run for run in self._status.runs if run.run_id == run_id]
            named = RunContext(f"run-{run_id}", found[0].playbook, found[0].target) if found else None
            self._contexts[run_id] = named or RunContext(f"run-{run_id}", "unknown")
        return self._contexts[run_id]

    def _tell_trouble(self) -> None:
        status = self._status
        if status.trouble is not None:
            self._notices.say("playbooks", f"no playbook walks: {status.trouble}", "error")
        else:
            self._notices.over("playbooks", "playbooks walk again")
        for run_id, text in status.stuck.items():
            self._notices.say(
                f"run-{run_id} stuck", f"run-{run_id} is over, and is tried to be put back for hours: {text}"
            )
        for key in self._stuck - status.stuck.keys():
            self._notices.over(f"run-{key} stuck", f"run-{key} is not tried to be put back any more")
        self._stuck = set(status.stuck)
        if status.gave_up is not None:
            self._notices.say("engine given up", f"critical: {status.gave_up}", "error")
        else:
            self._notices.over("engine given up", "the engine may be restarted again")
        for offer in status.offers:
            self._notices.say(
                f"run-{offer.run_id} act {offer.act_id}",
                f"a crash cut off what run-{offer.run_id} did ({offer.text}), and it cannot be taken back: look "
                "whether it is done",
            )

    # ------------------------------------------------------------------ what waits for a person

    def pending(self) -> list[dict[str, Any]]:
        """What runs ask, as `web.shapes.Approval`."""
        asking = [run for run in self._status.runs if run.question is not None]
        return [
            {"id": _question_id(run), "kind": "playbook", "text": run.question, "since": run.started}
            for run in asking
        ]

    def asks(self, id: str) -> bool:
        """Whether such a question of a run stands."""
        return self._asking(id) is not None

    def answer(self, id: str, *, yes: bool, by: str = "operator") -> dict[str, Any]:
        """Hand a person's answer on; raises `NotFound`."""
        run = self._asking(id)
        if run is None:
            raise NotFound(f"nothing waits under {id!r}: it was answered, or its time is over")
        self._answers.append(Answer(run.run_id, yes, by, run.call))
        # What was approved may wait long for another run to end: it asks nobody any more.
        self._notices.over(f"run-{run.run_id} asks", f"run-{run.run_id} was answered by {by}")
        return {"id": id, "answer": "approve" if yes else "decline"}

    def _asking(self, id: str) -> RunView | None:
        answered = {(answer.run_id, answer.call) for answer in self._answers}
        for run in self._status.runs:
            if (
                run.question is not None
                and _question_id(run) == id
                and (run.run_id, run.call) not in answered
            ):
                return run
        return None


def _question_id(run: RunView) -> str:
    # With the call: a plan that has changed is asked about anew, and a late yes to the old one approves nothing.
    return f"run-{run.run_id}-{run.step}-{run.call}"


def _restarts(playbooks: Mapping[str, Playbook], name: str | None) -> bool:
    """Whether a playbook restarts the engine without waiting for a quiet time."""
    if name is None or name not in playbooks:
        return False
    acts = [step.action() for step in playbooks[name].steps if isinstance(step, Act)]
    return any(act.kind == "restart" and act.arguments.get("when", "now") == "now" for act in acts)
