"""The runs there are: which may start, what each sees, and what they want done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from collectors.sample import Labels
from rules.playbook.messages import Answer, Command, Mode, Result, RunState, Trigger
from rules.playbook.rails import Limits
from rules.readings import Readings
from store import Store


@dataclass(frozen=True, slots=True)
class RunView:
    """A run as the page shows it; `question` is what it asks a person, with the `call` that an answer names."""

    run_id: int
    playbook: str
    title: str
    target: str
    labels: Labels
    state: RunState
    step: str | None
    reason: str | None
    cause: str | None
    dry_run: bool
    queued: float
    started: float | None
    question: str | None = None
    call: int | None = None
    answer_by: float | None = None


@dataclass(frozen=True, slots=True)
class Offer:
    """An act without a way back that a crash cut off: a person should look whether it is done, and may do it again."""

    run_id: int
    act_id: int
    step: str
    text: str


@dataclass(frozen=True, slots=True)
class Status:
    """What is walking, what waits, and what the rails still allow."""

    runs: tuple[RunView, ...]
    offers: tuple[Offer, ...] = ()
    acts_left: int = 0
    cooling: Mapping[str, float] = field(default_factory=dict)
    """Until when a target rests, Unix seconds."""
    trouble: str | None = None
    """Why nothing can be written down, and so nothing done."""


class Runner:
    """All runs of one engine. The store is the only I/O: each act stands there before it is handed out."""

    def __init__(self, engine: str, playbooks: Mapping[str, object], limits: Limits, store: Store) -> None:
        raise NotImplementedError

    def recover(self, now: float) -> tuple[Command, ...]:
        """Take up what a crash left, once, before the first tick. Raises `StoreError`."""
        raise NotImplementedError

    def take(self, triggers: Iterable[Trigger], now: float) -> None:
        """Note why playbooks should walk; the next tick writes down each new one."""
        raise NotImplementedError

    def resolved(self, fingerprint: str, now: float) -> None:
        """The alert is over: a run that has changed nothing yet is not needed any more."""
        raise NotImplementedError

    def tick(
        self,
        now: float,
        readings: Readings,
        mode: Mode,
        stopped: str | None,
        results: Sequence[Result] = (),
        answers: Sequence[Answer] = (),
    ) -> tuple[Command, ...]:
        """Go on with every run; carry out the commands in their order, those of one run never beside each other."""
        raise NotImplementedError

    def status(self, now: float) -> Status:
        """What the page shows."""
        raise NotImplementedError
