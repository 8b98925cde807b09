"""The runs there are: which may start, what each sees, and what they want done."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rules.actions import Action, Outcome
from rules.playbook.intake import MOST_AT_ONCE, admit, cleaned, values_of
from rules.playbook.messages import (
    ENDED,
    Answer,
    Command,
    IntendAct,
    Mode,
    Note,
    Observation,
    PlanAct,
    Result,
    Trigger,
)
from rules.playbook.rails import LONGEST_WAIT, Limits, Past, Present, Rails
from rules.playbook.recovery import CUT_OFF, Recovery
from rules.playbook.run import FINISH_PROFILE_SECONDS, Run
from rules.playbook.run_store import Kept, RunStore
from rules.playbook.schema import Playbook
from rules.playbook.views import Offer, RunView, Status
from rules.readings import Readings
from store import Store, StoreError

MOST_TAKEN = 1000
MOST_LOOKING = 4
"""Runs that only look and walk beside each other."""
MOST_ANSWERS = 10
MOST_RESTARTS = 2
"""A run that is cut off more often is not begun again: it may be what brings the daemon down."""


@dataclass(slots=True)
class _Entry:
    kept: Kept
    mind: Run | Recovery | None = None
    resolved: bool = False
    changes: bool = False
    waits: str | None = None
    answers: list[Answer] = field(default_factory=list)
    """What a person said while another run was changing something."""

    @property
    def live(self) -> bool:
        return self.kept.ledger.state not in ENDED

    @property
    def begun(self) -> bool:
        """Whether it has changed something."""
        return any(act.touched for act in self.kept.ledger.acts)

    @property
    def holds(self) -> bool:
        """Whether no other run may change anything: it walks, and does more than wait for leave to begin."""
        asks = self.kept.ledger.state == "waiting_approval" and not self.begun
        return self.mind is not None and self.changes and self.live and not asks


class Runner:
    """All runs of one engine. The store is the only I/O: each act stands there with its undo before it is given out."""

    def __init__(
        self,
        engine: str,
        playbooks: Mapping[str, Playbook],
        limits: Limits,
        store: Store,
        *,
        finish_profile_seconds: float = FINISH_PROFILE_SECONDS,
    ) -> None:
        """`finish_profile_seconds` is how long whoever takes a profile waits for its end."""
        self._playbooks = playbooks
        self._rails = Rails(limits)
        self._finish_profile = finish_profile_seconds
        self._store = RunStore(store, engine)
        self._inbox: deque[Trigger] = deque()
        self._entries: list[_Entry] = []
        self._offers: list[Offer] = []
        self._trouble: str | None = None

    def recover(self, now: float) -> None:
        """Take up what a crash left, once, before the first tick. Raises `StoreError`.

        A run that had not acted waits for its turn again; what another has done is put back by the next ticks.
        """
        for kept in self._store.unfinished():
            entry = _Entry(kept)
            self._entries.append(entry)
            if any(act.touched for act in kept.ledger.acts):
                mind = Recovery(kept.ledger)
                entry.mind, entry.changes = mind, True
                self._offers += [
                    Offer(kept.ledger.run_id, act.act_id, act.step, act.plan.text) for act in mind.offers
                ]
                kept.ledger.note(now, "state", f"{CUT_OFF}: what no step has verified is put back")
            elif kept.ledger.state != "queued":
                self._again(now, kept)

    def take(self, triggers: Iterable[Trigger], now: float) -> int:
        """Note why playbooks should walk; the next tick writes down each new one. Returns how many found no room."""
        refused = 0
        for trigger in triggers:
            if len(self._inbox) < MOST_TAKEN:
                self._inbox.append(cleaned(trigger))
            else:
                refused += 1
        return refused

    def resolved(self, fingerprint: str, now: float) -> None:
        """The alert is over: a run that has changed nothing yet is not needed any more."""
        if not fingerprint:
            return
        why = "the alert resolved by itself"
        self._inbox = deque(
            replace(trigger, refusal=why) if trigger.fingerprint == fingerprint else trigger
            for trigger in self._inbox
        )
        for entry in self._entries:
            if entry.kept.trigger.fingerprint == fingerprint:
                entry.resolved = True
                if entry.mind is not None:
                    entry.mind.resolved = True

    def tick(
        self,
        now: float,
        readings: Readings,
        mode: Mode,
        stopped: str | None,
        results: Sequence[Result] = (),
        answers: Sequence[Answer] = (),
    ) -> tuple[Command, ...]:
        """Go on with every run; carry out the commands in their order, those of one run never beside each other.

        `stopped` is why nothing new may be done (pause, kill-switch): what is done is watched, and put back where it
        does not help, but no run starts and no act is taken.
        """
        out: list[Command] = []
        seen = Observation(readings, mode, stopped, results, answers)
        self._trouble = None
        # What could not be written by the last tick comes first: the cool-downs of new runs are read from it.
        self._save()
        if self._trouble is None:
            try:
                self._admit(now)
                past = self._store.past(now) if any(entry.mind is None for entry in self._entries) else []
            except StoreError as error:
                self._trouble = str(error)
            else:
                for entry in self._entries:
                    self._start(now, entry, past, seen)
        for entry in self._entries:
            out += self._walk(now, entry, seen)
        self._save()
        return tuple(out)

    @property
    def acting(self) -> bool:
        """Whether a run has changed something and has not ended."""
        return any(entry.live and entry.begun for entry in self._entries)

    @property
    def idle(self) -> bool:
        """Whether there is nothing to go on with."""
        return not self._entries and not self._inbox

    def status(self, now: float) -> Status:
        """What the page shows."""
        try:
            past, acts = self._store.past(now), self._store.acts(now)
        except StoreError as error:
            return Status(self._views(), tuple(self._offers), trouble=str(error))
        cooling: dict[str, float] = {}
        for run in past:
            until = run.ended + run.target_rest_seconds
            if until > now:
                cooling[run.target] = max(until, cooling.get(run.target, 0.0))
        left = self._rails.acts_left(acts, now)
        return Status(self._views(), tuple(self._offers), left, cooling, self._trouble)

    def _admit(self, now: float) -> None:
        batch = [self._inbox[number] for number in range(min(len(self._inbox), MOST_AT_ONCE))]
        if batch:
            runs = admit(batch, self._playbooks, self._rails, self._store, self._present(), now)
            for _ in batch:
                self._inbox.popleft()
            self._entries += [_Entry(run) for run in runs]

    def _start(self, now: float, entry: _Entry, past: Sequence[Past], seen: Observation) -> None:
        kept = entry.kept
        if entry.mind is not None or kept.ledger.state != "queued":
            return
        playbook = self._playbooks.get(kept.trigger.playbook)
        dry = kept.trigger.dry_run or seen.mode == "observe"
        changes = playbook is not None and playbook.changes and not dry
        entry.waits = self._rails.start(
            kept.ledger.target, past, self._present(), changes=changes, stopped=seen.stopped, now=now
        )
        if entry.waits is None and not changes and self._looking() >= MOST_LOOKING:
            entry.waits = f"{MOST_LOOKING} runs are looking already"
        if entry.resolved:
            kept.ledger.enter(now, "skipped", "the alert resolved by itself before the run began")
        elif playbook is None:
            kept.ledger.enter(now, "skipped", "its playbook is not there any more")
        elif entry.waits is None:
            kept.dry, entry.changes = dry, changes
            entry.mind = Run(
                kept.ledger,
                playbook,
                values_of(kept.trigger, playbook),
                dry=dry,
                approval_seconds=self._rails.limits.approval_seconds,
                finish_profile_seconds=self._finish_profile,
            )
        elif now - kept.queued > LONGEST_WAIT:
            kept.ledger.enter(now, "skipped", f"waited for {LONGEST_WAIT / 60:g} min: {entry.waits}")

    def _walk(self, now: float, entry: _Entry, seen: Observation) -> list[Command]:
        """Step a run until it waits for somebody else; what the rails or the store refuse it hears at once."""
        out: list[Command] = []
        if seen.answers or entry.answers:
            seen = self._heard(entry, seen)
        while True:
            said = entry.kept.ledger.drain() if entry.mind is None else entry.mind.step(now, seen)
            own: list[Result] = []
            for command in said:
                if isinstance(command, Note):
                    entry.kept.notes.append(command)
                answer = self._answer(now, entry, command, seen)
                if answer is not None:
                    own.append(answer)
                elif not isinstance(command, IntendAct):
                    out.append(command)
            if not own:
                break
            # An answer approves one question: not the one that may follow in the same tick.
            seen = replace(seen, results=(*seen.results, *own), answers=())
        self._rest(entry)
        return out

    def _heard(self, entry: _Entry, seen: Observation) -> Observation:
        """What a person said to a run: while another one changes something it is kept until that has ended."""
        run_id = entry.kept.ledger.run_id
        entry.answers += [answer for answer in seen.answers if answer.run_id == run_id][:MOST_ANSWERS]
        if self._holder(entry) is not None:
            return replace(seen, answers=())
        answers, entry.answers = entry.answers, []
        return replace(seen, answers=answers)

    def _holder(self, entry: _Entry) -> _Entry | None:
        return next((other for other in self._entries if other is not entry and other.holds), None)

    def _answer(self, now: float, entry: _Entry, command: Command, seen: Observation) -> Result | None:
        """Why an act may not be planned or done, or, for one that is to be done, that it stands in the store."""
        if not isinstance(command, PlanAct | IntendAct):
            return None
        run, call = command.run_id, command.call
        try:
            refused = self._refusal(now, entry, command.action, seen)
            if refused is not None:
                return Result(run, call, refused=refused)
            if isinstance(command, IntendAct):
                number = self._store.intend(entry.kept, command.step, command.action, command.plan, now)
                return Result(run, call, outcome=Outcome(True, "written down", {"act_id": number}))
        except StoreError as error:
            self._trouble = str(error)
            return Result(run, call, refused=f"the store cannot be written, so nothing is done: {error}")
        return None

    def _refusal(self, now: float, entry: _Entry, action: Action, seen: Observation) -> str | None:
        acts = self._store.acts(now)
        other = self._holder(entry)
        if action.kind != "notify" and not entry.kept.dry and (other is not None or not entry.changes):
            walking = (
                f"run {other.kept.ledger.run_id} is changing something" if other else "this run only looks"
            )
            return f"{walking}, and one at a time may"
        return self._rails.act(
            action.kind, acts, mode=seen.mode, dry=entry.kept.dry, stopped=seen.stopped, now=now
        )

    def _rest(self, entry: _Entry) -> None:
        """A walk that has done nothing to its target lets others at it."""
        kept = entry.kept
        if not entry.live and not kept.dry and not any(act.touched for act in kept.ledger.acts):
            kept.memory["target_rest_seconds"] = 0.0

    def _save(self) -> None:
        changed = [entry.kept for entry in self._entries if entry.kept.notes]
        try:
            if changed:
                self._store.save(changed)
        except StoreError as error:
            self._trouble = str(error)
        else:
            # What has ended, but has not said so yet, is walked once more.
            self._entries = [entry for entry in self._entries if entry.live or entry.kept.ledger.out]

    def _again(self, now: float, kept: Kept) -> None:
        restarts = int(kept.memory.get("restarts", 0)) + 1
        kept.memory["restarts"] = restarts
        if restarts > MOST_RESTARTS:
            kept.ledger.enter(now, "abandoned", f"{CUT_OFF} {restarts} times")
            return
        kept.ledger.at = None
        kept.ledger.enter(now, "queued", f"{CUT_OFF}: it had changed nothing, and begins again")
        kept.ledger.started = None

    def _present(self) -> list[Present]:
        return [
            Present(
                entry.kept.ledger.run_id,
                entry.kept.ledger.playbook,
                entry.kept.ledger.target,
                waiting=entry.mind is None,
                holds=entry.holds,
            )
            for entry in self._entries
            if entry.live
        ]

    def _looking(self) -> int:
        return sum(entry.mind is not None and not entry.changes for entry in self._entries)

    def _views(self) -> tuple[RunView, ...]:
        return tuple(self._view(entry) for entry in self._entries)

    def _view(self, entry: _Entry) -> RunView:
        kept, ledger = entry.kept, entry.kept.ledger
        playbook = self._playbooks.get(ledger.playbook)
        asks = None if entry.mind is None else entry.mind.question
        return RunView(
            ledger.run_id,
            ledger.playbook,
            ledger.playbook if playbook is None else playbook.title,
            ledger.target,
            kept.trigger.labels,
            ledger.state,
            ledger.at,
            entry.waits if ledger.state == "queued" else ledger.reason,
            ledger.cause,
            kept.dry,
            kept.queued,
            ledger.started,
            None if asks is None else asks.plan.told,
            None if asks is None else asks.call,
            None if entry.mind is None else entry.mind.answer_by,
        )
