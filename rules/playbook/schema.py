"""The form of a playbook file: steps, branches, time-outs, each with its bounds."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from rules.actions import CHANGED, Action, CaptureKind
from rules.durations import seconds_of
from rules.expression import ExpressionError, parse
from rules.playbook.action_forms import MAX_TEXT, ActionForm, Form, Text, plain
from rules.playbook.variables import Template, VariableError, names_in

MAX_STEPS = 64
MAX_PLAYBOOKS = 200
HOUR = 3600.0
VERIFY_MINIMUM = 5.0

ENDS = ("end:succeeded", "end:inconclusive", "end:failed", "undo")
"""Where a branch may lead besides a step; `undo` puts back every act that can be, but for those with `keep`."""


def _duration(value: object) -> float:
    return seconds_of(value)


def _condition(text: str) -> str:
    try:
        parse(Template(text).sample())
    except (VariableError, ExpressionError) as error:
        raise ValueError(str(error)) from error
    return text


def _variable_value(value: object) -> object:
    if isinstance(value, bool | int | float):
        return str(value).lower() if isinstance(value, bool) else f"{value}"
    return value


Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
Goto = Annotated[str, Field(pattern=r"^(end:(succeeded|inconclusive|failed)|undo|[a-z][a-z0-9_]{0,63})$")]
Seconds = Annotated[float, BeforeValidator(_duration)]
Wait = Annotated[Seconds, Field(ge=0, le=HOUR)]
Condition = Annotated[str, Field(min_length=1, max_length=MAX_TEXT), AfterValidator(_condition)]
"""An expression as in a rule; `${x}` is a variable. It holds when it gives anything."""
Figures = Annotated[dict[Name, Condition], Field(max_length=8)]
Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")]
VariableValue = Annotated[str, BeforeValidator(_variable_value), Field(max_length=500)]


class _Step(Form):
    name: Name
    figures: Figures = Field(default={}, description="figures that the audit line is to hold")


class Check(_Step):
    """Look whether a condition holds, or comes to hold."""

    check: Condition
    within: Wait = Field(default=0.0, description="wait this long for it to hold; 0: look once")
    yes: Goto | None = Field(default=None, description="where to go when it holds; unset: the next step")
    no: Goto = Field(default="end:inconclusive", description="where to go when it does not")
    unknown: Goto | None = Field(default=None, description="where to go without any reading; unset: as `no`")


class Capture(_Step):
    """Record evidence; the walk goes on when there is none."""

    capture: CaptureKind
    seconds: Annotated[Seconds, Field(gt=0, le=120)] = 10.0
    then: Goto | None = Field(default=None, description="where to go after it; unset: the next step")
    failed: Goto | None = Field(default=None, description="where to go without it; unset: as `then`")


class Diagnose(_Step):
    """Say what is wrong, and name the cause."""

    diagnose: Text
    cause: Name = Field(description="the cause's name, as reports and benchmarks use it")
    then: Goto | None = None


class Act(_Step):
    """Change something, with its undo written down before."""

    act: ActionForm
    timeout: Annotated[Seconds, Field(gt=0, le=2 * HOUR)] = 60.0
    then: Goto | None = None
    failed: Goto = Field(default="end:failed", description="where to go when it is refused or fails")
    keep: bool = Field(default=False, description="once done it stays, whatever becomes of the walk")

    def action(self) -> Action:
        """The action with its variables still in it."""
        return Action(self.act.kind, plain(self.act), self.timeout, self.keep)


class Verify(_Step):
    """See whether what was done helps: a condition that must hold for a while within a time."""

    verify: Condition
    for_: Annotated[Wait, Field(alias="for")] = 0.0
    within: Annotated[Seconds, Field(ge=VERIFY_MINIMUM, le=HOUR)] = 300.0
    yes: Goto | None = None
    no: Goto = "undo"
    unknown: Goto | None = None

    @model_validator(mode="after")
    def _in_time(self) -> Verify:
        if self.for_ > self.within:
            raise ValueError(
                f"for ({self.for_:g} s) is longer than within ({self.within:g} s): it can never hold"
            )
        return self


Step = Check | Capture | Diagnose | Act | Verify
KINDS: dict[str, type[_Step]] = {
    "check": Check,
    "capture": Capture,
    "diagnose": Diagnose,
    "act": Act,
    "verify": Verify,
}


def _kind(value: Any) -> str | None:
    if isinstance(value, _Step):
        return type(value).__name__.lower()
    found = [kind for kind in KINDS if isinstance(value, dict) and kind in value]
    return found[0] if found else None


AnyStep = Annotated[
    Annotated[Check, Tag("check")]
    | Annotated[Capture, Tag("capture")]
    | Annotated[Diagnose, Tag("diagnose")]
    | Annotated[Act, Tag("act")]
    | Annotated[Verify, Tag("verify")],
    Discriminator(
        _kind,
        custom_error_type="no_step",
        custom_error_message="a step has one of check, capture, diagnose, act, verify",
    ),
]


class Playbook(Form):
    """A troubleshooting procedure."""

    name: Name
    title: Annotated[str, Field(min_length=1, max_length=100)]
    description: Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]
    guide: Annotated[str, Field(max_length=MAX_TEXT)] = Field(
        default="", description="which guide it follows, and where that is read honestly"
    )
    target: Literal["engine", "npu", "host"] = Field(
        default="engine", description="what a cool-down counts for; npu is the alert's label of that name"
    )
    cooldown: Annotated[Seconds, Field(ge=60, le=7 * 24 * HOUR)] = 30 * 60.0
    urgent: bool = Field(
        default=False,
        description="it cannot wait: it ends the run that holds the engine, and obeys neither others' cool-downs nor "
        "the hour's limit of actions; 3 restarts within an hour are its own",
    )
    variables: Annotated[dict[Variable, VariableValue], Field(max_length=32)] = Field(
        default={}, description="defaults; the alert's labels are variables too, and go before these"
    )
    steps: Annotated[tuple[AnyStep, ...], Field(min_length=1, max_length=MAX_STEPS)]

    @cached_property
    def index(self) -> dict[str, int]:
        """Where each step stands."""
        return {step.name: number for number, step in enumerate(self.steps)}

    @property
    def changes(self) -> bool:
        """Whether it may change something or cost speed, so that no other such run may walk beside it."""
        return any(
            (isinstance(step, Act) and step.act.kind != "notify")
            or (isinstance(step, Capture) and step.capture == "msprof")
            for step in self.steps
        )

    @cached_property
    def may_change(self) -> frozenset[str]:
        """What its actions may change, besides its target."""
        kinds = {step.act.kind for step in self.steps if isinstance(step, Act)}
        return frozenset(CHANGED[kind] for kind in kinds if kind in CHANGED)

    @property
    def verify_seconds(self) -> float:
        """The longest that one of its verifications takes."""
        return max((step.within for step in self.steps if isinstance(step, Verify)), default=0.0)

    @property
    def names(self) -> frozenset[str]:
        """Every variable that its steps use."""
        return frozenset().union(*(names_of(step) for step in self.steps))

    def after(self, step: Step) -> str:
        """The step that stands after one, or the end."""
        number = self.index[step.name] + 1
        return self.steps[number].name if number < len(self.steps) else "end:succeeded"


class PlaybookFile(Form):
    """A file of playbooks."""

    playbooks: Annotated[tuple[Playbook, ...], Field(max_length=MAX_PLAYBOOKS)]


def names_of(step: Step) -> frozenset[str]:
    """The variables that a step uses."""
    names = frozenset[str]().union(*(Template(text).names for text in step.figures.values()))
    match step:
        case Check():
            return names | Template(step.check).names
        case Verify():
            return names | Template(step.verify).names
        case Diagnose():
            return names | names_in(step.diagnose)
        case Act():
            return names.union(*(names_in(text) for text in _texts(step.action().arguments)))
    return names


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for inner in value.values() for text in _texts(inner)]
    return []


def schema() -> dict[str, Any]:
    """The JSON Schema of a playbook file."""
    return PlaybookFile.model_json_schema(by_alias=True)
