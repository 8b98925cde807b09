"""What a playbook file may ask for: the allow-list of actions, with the arguments of each."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from change.catalogue.index import HOT_KNOBS
from change.host_knobs import HOST_KNOBS
from rules.playbook.variables import VariableError, names_in

MAX_TEXT = 2000
_FACTOR = re.compile(r"x\d{1,3}(?:\.\d{1,6})?")
_VARIABLE = re.compile(r"\$\{\w+\}")


class Form(BaseModel):
    """A part of the file: unknown keys are errors, values do not change after reading."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, validate_by_name=True)


def _with_variables(text: str) -> str:
    try:
        names_in(text)
    except VariableError as error:
        raise ValueError(str(error)) from error
    return text


Text = Annotated[str, Field(min_length=1, max_length=MAX_TEXT), AfterValidator(_with_variables)]
"""A text for people; `${x}` is a variable."""


def _known(name: str, known: Mapping[str, object], lane: str) -> str:
    if name not in known:
        near = difflib.get_close_matches(name, list(known), n=1)
        meant = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
        raise ValueError(f"{name} is no knob of the {lane} lane; {meant}")
    return name


def hot_value(value: object) -> object:
    """A number, a factor as `x0.5`, or a variable. Raises `ValueError` for anything else."""
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e12:
        return value
    if isinstance(value, str) and (_FACTOR.fullmatch(value) or _VARIABLE.fullmatch(value)):
        return value
    raise ValueError(
        f'{str(value)[:60]!r} is neither a number, nor "x0.5" (times the value in force), nor a variable'
    )


HotKnob = Annotated[str, AfterValidator(lambda name: _known(name, HOT_KNOBS, "hot"))]
HostKnob = Annotated[str, AfterValidator(lambda name: _known(name, HOST_KNOBS, "host"))]
HotValue = Annotated[float | str, BeforeValidator(hot_value)]
Scalar = bool | int | float | Annotated[str, Field(max_length=MAX_TEXT), AfterValidator(_with_variables)]
SettingName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,99}$")]


class SetKnobs(Form):
    """Hot lane: knobs of the running engine."""

    kind: Literal["set_knobs"]
    arguments: Annotated[dict[HotKnob, HotValue], Field(min_length=1, max_length=8)]


class FactorArgument(Form):
    """By how much."""

    factor: Annotated[float, Field(gt=0, le=16, allow_inf_nan=False)]


class ExpandBatch(Form):
    """Hot lane: the batch limits by a factor, inside their bounds."""

    kind: Literal["expand_batch"]
    arguments: FactorArgument


class SetHost(Form):
    """Host lane: placement, memory and power of the host."""

    kind: Literal["set_host"]
    arguments: Annotated[dict[HostKnob, Scalar], Field(min_length=1, max_length=16)]


class RestartArguments(Form):
    """Start-up settings that change with the restart; none: the same again.

    `quietest` waits for a quiet time; `down` is refused while the engine serves.
    """

    settings: Annotated[dict[SettingName, Scalar], Field(max_length=16)] = {}
    when: Literal["now", "quietest", "down"] = "now"


class Restart(Form):
    """Cold lane: restart the engine."""

    kind: Literal["restart"]
    arguments: RestartArguments = RestartArguments()


class ScaleArguments(Form):
    """How many more."""

    replicas: Annotated[int, Field(ge=1, le=100)] = 1


class ScaleUp(Form):
    """The operator's hook or Kubernetes: more replicas."""

    kind: Literal["scale_up"]
    arguments: ScaleArguments = ScaleArguments()


class NoArguments(Form):
    """Takes none."""


class TrafficAway(Form):
    """The operator's hook or Kubernetes: this replica gets no new requests."""

    kind: Literal["traffic_away"]
    arguments: NoArguments = NoArguments()


class NotifyArguments(Form):
    """What to tell."""

    text: Text


class Notify(Form):
    """Tell every webhook, and the page."""

    kind: Literal["notify"]
    arguments: NotifyArguments


ActionForm = Annotated[
    SetKnobs | ExpandBatch | SetHost | Restart | ScaleUp | TrafficAway | Notify, Field(discriminator="kind")
]


def plain(form: Any) -> dict[str, Any]:
    """The arguments of an action as plain values."""
    arguments = form.arguments
    return dict(arguments) if isinstance(arguments, dict) else arguments.model_dump()
