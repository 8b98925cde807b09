"""What the page shows of the runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from collectors.sample import Labels
from rules.playbook.messages import RunState


@dataclass(frozen=True, slots=True)
class RunView:
    """A run as the page shows it; `question` is what it asks a person, with the `call` that an answer names.

    `reason` is, while it waits, why it waits. Times are Unix seconds.
    """

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
    """What is walking, what waits, and what the rails still allow.

    `cooling` is until when a target rests, `trouble` why nothing can be written down, and so nothing done, `stuck` by
    run what could not be put back yet and is tried again, `gave_up` why an engine that keeps ending is left.
    """

    runs: tuple[RunView, ...]
    offers: tuple[Offer, ...] = ()
    acts_left: int = 0
    cooling: Mapping[str, float] = field(default_factory=dict)
    trouble: str | None = None
    stuck: Mapping[int, str] = field(default_factory=dict)
    gave_up: str | None = None
