"""The runs there are: which may start, what each sees, and what they want done."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from rules.actions import Action, ActionKind, Outcome
from rules.playbook.entry import Entry
from rules.playbook.intake import MOST_AT_ONCE, admit, cleaned, values_of
from rules.playbook.ledger import Ledger
from rules.playbook.messages import (
    Answer,
    Command,
    EndProfile,
    IntendAct,
    Mode,
    Note,
    Observation,
    PlanAct,
    Result,
    Trigger,
)
from rules.playbook.rails import LONGEST_REST, LONGEST_WAIT, Limits, Past, Present, Rails
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
MOST_RESTARTS = 2
"""A run that is cut off more often is not begun again: it may be what brings the daemon down."""
GIVE_WAY_SECONDS = 20.0
"""What a run that gives way to an urgent one may still put back before that begins."""


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
        self._entries: list[Entry] = []
        self._offers: list[Offer] = []
        self._trouble: str | None = None
        self._gave_up: str | None = None

    def recover(self, now: float) -> None:
        """Take up what a crash left, once, before the first tick. Raises `StoreError`.

        A run that had not acted waits for its turn again; what another has done is put back by the next ticks.
        """
        for kept in self._store.unfinished():
            entry = Entry(kept)
            self._entries.append(entry)
            if any(act.touched for act in kept.ledger.acts):
                mind = Recovery(kept.ledger, now)
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

    def allows(self, name: str, kind: ActionKind, now: float) -> bool:
        """Whether the rails would let an enabled playbook do such an act now in mode act, or let it do so already."""
        playbook, present = self._playbooks.get(name), self._present()
        if playbook is None:
            return False
        if any(run.playbook == name and not run.waiting for run in present):
            return True
        try:
            past, acts, restarts = self._store.past(now), self._store.acts(now), self._store.restarts(now)
        except StoreError:
            return False
        target, urgent = playbook.target, playbook.urgent
        why = (
            self._rails.admit(playbook, target, past, [], now)
            or self._rails.start(target, past, [], changes=True, stopped=None, now=now, playbook=playbook)
            or self._rails.act(kind, acts, mode="act", dry=False, stopped=None, now=now, urgent=urgent)
            or (self._rails.gave_up(restarts, now) if urgent and kind == "restart" else None)
        )
        return why is None

    def status(self, now: float) -> Status:
        """What the page shows."""
        try:
            past, acts = self._store.past(now), self._store.acts(now)
            if self._gave_up is not None:
                self._gave_up = self._rails.gave_up(self._store.restarts(now), now)
        except StoreError as error:
            return Status(self._views(), tuple(self._offers), trouble=str(error))
        cooling: dict[str, float] = {}
        for run in past:
            until = run.ended + run.target_rest_seconds
            if until > now:
                cooling.update({what: max(until, cooling.get(what, 0.0)) for what in run.watched})
        left = self._rails.acts_left(acts, now)
        stuck = {
            entry.kept.ledger.run_id: "; ".join(entry.mind.stuck)
            for entry in self._entries
            if isinstance(entry.mind, Recovery) and entry.mind.stuck
        }
        return Status(self._views(), tuple(self._offers), left, cooling, self._trouble, stuck, self._gave_up)

    def _admit(self, now: float) -> None:
        batch = [self._inbox[number] for number in range(min(len(self._inbox), MOST_AT_ONCE))]
        if batch:
            runs = admit(batch, self._playbooks, self._rails, self._store, self._present(), now)
            for _ in batch:
                self._inbox.popleft()
            self._entries += [Entry(run) for run in runs]

    def _start(self, now: float, entry: Entry, past: Sequence[Past], seen: Observation) -> None:
        kept = entry.kept
        if entry.mind is not None or kept.ledger.state != "queued":
            return
        playbook = self._playbooks.get(kept.trigger.playbook)
        entry.urgent = playbook is not None and playbook.urgent
        dry = kept.trigger.dry_run or seen.mode == "observe"
        changes = playbook is not None and playbook.changes and not dry
        stopped = None if kept.trigger.dry_run else seen.stopped
        entry.waits = self._why_wait(now, entry, playbook, past, changes=changes, stopped=stopped)
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
        else:
            # A cool-down is waited for to its end, as the alert goes on firing; whatever else, not for ever.
            rest = self._rails.rest_until(playbook, kept.ledger.target, past, changes=changes)
            begin = min(max(kept.queued, rest), kept.queued + LONGEST_REST)
            if now - begin > LONGEST_WAIT:
                kept.ledger.enter(now, "skipped", f"waited for {LONGEST_WAIT / 60:g} min: {entry.waits}")

    def _why_wait(
        self,
        now: float,
        entry: Entry,
        playbook: Playbook | None,
        past: Sequence[Past],
        *,
        changes: bool,
        stopped: str | None,
    ) -> str | None:
        def reason(present: Sequence[Present]) -> str | None:
            target = entry.kept.ledger.target
            return self._rails.start(
                target, past, present, changes=changes, stopped=stopped, now=now, playbook=playbook
            )

        if changes and entry.urgent and reason([run for run in self._present() if not run.holds]) is None:
            for other in self._entries:
                if other is not entry and other.holds:
                    self._give_way(now, other, entry.kept.ledger)
        return reason(self._present())

    def _give_way(self, now: float, other: Entry, urgent: Ledger) -> None:
        """End what holds the engine: a verification of an engine that is gone proves nothing."""
        at = now + GIVE_WAY_SECONDS
        if isinstance(other.mind, Recovery):
            other.mind.gives_way_at = other.mind.gives_way_at or at
        elif not other.urgent and not other.restarting:
            why = f"gave way to run {urgent.run_id} ({urgent.playbook})"
            other.kept.ledger.note(now, "state", f"{why}: what no step has verified is put back")
            other.kept.ledger.out.append(EndProfile(other.kept.ledger.run_id))
            other.mind = Recovery(other.kept.ledger, now, why, gives_way_at=at)

    def _walk(self, now: float, entry: Entry, seen: Observation) -> list[Command]:
        """Step a run until it waits for somebody else; what the rails or the store refuse it hears at once."""
        out: list[Command] = []
        if isinstance(entry.mind, Recovery):
            entry.mind.free = not any(
                other.holds and isinstance(other.mind, Run) for other in self._entries if other is not entry
            )
        if entry.kept.ledger.state == "waiting_approval":
            seen = replace(seen, held=self._holder(entry))
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
        if not entry.live:
            entry.rest()
        return out

    def _holder(self, entry: Entry) -> str | None:
        """Which other run is changing something now, so that this one may not."""
        for other in self._entries:
            if other is not entry and other.holds and not (entry.urgent and other.yields):
                return f"run {other.kept.ledger.run_id} is changing something"
        return None

    def _answer(self, now: float, entry: Entry, command: Command, seen: Observation) -> Result | None:
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

    def _refusal(self, now: float, entry: Entry, action: Action, seen: Observation) -> str | None:
        acts = self._store.acts(now)
        other = self._holder(entry)
        if action.kind != "notify" and not entry.kept.dry and (other is not None or not entry.changes):
            return f"{other or 'this run only looks'}, and one at a time may"
        if entry.urgent and action.kind == "restart" and not entry.kept.dry:
            gave_up = self._rails.gave_up(self._store.restarts(now), now)
            if gave_up is not None:
                self._gave_up = gave_up
                return gave_up
        return self._rails.act(
            action.kind,
            acts,
            mode=seen.mode,
            dry=entry.kept.dry,
            stopped=seen.stopped,
            now=now,
            urgent=entry.urgent,
        )

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
        return [entry.present() for entry in self._entries if entry.live]

    def _looking(self) -> int:
        return sum(entry.mind is not None and not entry.changes for entry in self._entries)

    def _views(self) -> tuple[RunView, ...]:
        return tuple(entry.view(self._playbooks) for entry in self._entries)
