"""The values an action asks for: numbers as they are, `x0.5` as a factor of the value in force, kept inside bounds."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from change.catalogue.domain import Numbers
from change.catalogue.index import HOT_KNOBS
from change.engine import EngineState, Values
from change.journal import Journal
from change.knobs import problems
from rules.actions import ActionRefused

LEAST_SHARE = 1 / 8
"""Of the usual value: a factor is of what is in force and what helped stays, so many alerts would lead to nothing."""
_FACTOR = re.compile(r"x(\d{1,4}(?:\.\d{1,6})?)")


def factor(text: object) -> float | None:
    """The factor that a text such as `x0.5` is, or None for anything else."""
    found = _FACTOR.fullmatch(text) if isinstance(text, str) else None
    return None if found is None else float(found[1])


def number(what: str, value: object) -> float:
    """A finite number, also where it is written as text; raises `ActionRefused`."""
    try:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError
        found = float(value)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise ActionRefused(
            f"{what} is {value!r}: expected a number, or a factor of the value in force such as x0.5"
        )
    return found


def usual(journal: Journal, state: EngineState) -> dict[str, float]:
    """The values that this engine serves with when nothing is wrong: those promoted, else those it started with."""
    promoted, launch = journal.promoted(), journal.launch(state.boot_id)
    if launch is not None:
        begun: Values = launch.values
    else:
        begun = state.values if state.epoch == 0 else {}
    return {**begun, **({} if promoted is None else promoted.values)}


def scaled(name: str, by: float, state: EngineState, usually: Values | None = None) -> float:
    """A factor of the value in force, inside what the running engine can take; raises `ActionRefused`.

    It lowers no value under 1/8 of the usual one, and leaves one that is there already.
    """
    current = state.values[name]
    domain = HOT_KNOBS[name].domain if name in HOT_KNOBS else None
    if not isinstance(domain, Numbers):
        raise ActionRefused(f"{name} is no hot knob: only those can be set by a factor")
    if domain.zero_is_off and current == 0:
        raise ActionRefused(f"{name} is off now, and x{by:g} of that is nothing: give it a number")
    low = max(domain.least, state.floors.get(name, domain.least))
    high = min(domain.most, state.ceilings.get(name, domain.most))
    least = min((usually or {}).get(name, 0.0), high) * LEAST_SHARE
    value = min(max(current * by, low, min(least, current)), high)
    if domain.integer:
        value = float(min(max(round(value), math.ceil(low)), math.floor(high)))
    return value


def wanted(
    arguments: Mapping[str, Any], state: EngineState, usually: Values | None = None
) -> dict[str, float]:
    """The values that arguments ask of an engine in this state; raises `ActionRefused` for what it cannot take.

    `usually` are the engine's usual values, under 1/8 of which no factor leads.
    """
    if not arguments:
        raise ActionRefused("the action names no knob: give at least one, as in {max_num_seqs: x0.5}")
    absent = [name for name in arguments if name not in state.values]
    if absent:
        raise ActionRefused(
            f"this engine has no {', '.join(absent)}: it has {', '.join(state.values) or 'no hot knob'}"
        )
    asked: dict[str, float] = {}
    for name, value in arguments.items():
        by = factor(value)
        asked[name] = number(name, value) if by is None else scaled(name, by, state, usually)
    known = problems(state.values, state.ceilings, state.floors)
    new = [
        text
        for text in problems({**state.values, **asked}, state.ceilings, state.floors)
        if text not in known
    ]
    if new:
        raise ActionRefused("; ".join(new))
    return asked
