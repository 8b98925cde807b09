"""Hot knob values: what is never valid, where they differ from what was asked, and where the tuner may look."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from types import MappingProxyType

from change.catalogue.domain import Numbers
from change.catalogue.index import HOT_KNOBS
from change.choices import Options, words
from change.engine import Values
from change.host_knobs import HOST_KNOBS

NO_HOST_LANE = (
    "it needs the engine's plugin, mode act, and the host's knobs to be allowed and changeable from here "
    "(`trimtab host show`)"
)


@dataclass(frozen=True, slots=True)
class SearchRange:
    """Where the tuner may look for one knob's value, both ends included; 0 besides if `zero_is_off`.

    With `choice` each whole number stands for a text, and neighbours have nothing in common.
    """

    name: str
    low: float
    high: float
    log: bool
    integer: bool
    zero_is_off: bool
    choice: bool = False


def problems(values: Values, ceilings: Values, floors: Values) -> list[str]:
    """Say in words what makes a config invalid, whatever the traffic; empty if nothing does.

    `values` may be a whole config or a part of one; rules between two knobs apply where both are given. A knob with a
    ceiling that is not of the catalogue is one of the host's, whose values are places in a list.
    """
    found = [
        text for name, value in values.items() for text in _problems_of_one(name, value, ceilings, floors)
    ]
    budget, seqs = values.get("batch_max_tokens"), values.get("max_num_seqs")
    if budget is not None and seqs is not None and budget < seqs:
        found.append(
            f"batch_max_tokens {budget:g} is below max_num_seqs {seqs:g}: every running request needs a "
            "token a step"
        )
    return found


def differences(requested: Values, effective: Values, options: Options = MappingProxyType({})) -> list[str]:
    """Say in words where the effective values are not the requested ones; other knobs may differ."""
    found = []
    for name, value in requested.items():
        asked = words(name, value, options)
        if name not in effective:
            found.append(f"{name} was asked to be {asked} and does not exist in this engine")
        elif effective[name] != value:
            found.append(f"{name} was asked to be {asked} and is {words(name, effective[name], options)}")
    return found


def search_space(
    values: Values, ceilings: Values, floors: Values, names: Iterable[str] = ()
) -> list[SearchRange]:
    """Say where the tuner may look, for the knobs named (if none are, all that the engine has and that need no word).

    `values` is the incumbent: each range holds it. A knob with nothing to search is left out. Raises
    `ValueError` for a name that is no hot knob or that this engine does not have.
    """
    choices = [name for name in values if name not in HOT_KNOBS]
    free = [name for name, knob in HOT_KNOBS.items() if name in values and knob.search == "free"]
    wanted = list(names) or free + choices
    for name in wanted:
        if name not in HOT_KNOBS and name not in choices:
            if name in HOST_KNOBS:
                raise ValueError(f"{name} is a knob of the host lane, which is not there: {NO_HOST_LANE}")
            raise ValueError(f"{name!r} is no hot knob: expected one of {', '.join(HOT_KNOBS)}")
        if name not in values:
            raise ValueError(f"this engine has no {name}: it has {', '.join(values) or 'no hot knob'}")
    ranges = []
    for name in wanted:
        if name in choices:
            if ceilings[name] > 0:
                ranges.append(SearchRange(name, 0, ceilings[name], False, True, False, choice=True))
            continue
        domain = _numbers(name)
        low, high = (
            (domain.least if domain.low is None else domain.low),
            (domain.most if domain.high is None else domain.high),
        )
        low, high = max(low, floors.get(name, low)), min(high, ceilings.get(name, high))
        if name == "batch_max_tokens" and "max_num_seqs" not in wanted:
            low = max(low, values.get("max_num_seqs", low))
        if not (domain.zero_is_off and values[name] == 0):
            low, high = min(low, values[name]), max(high, values[name])
        if low < high:
            ranges.append(SearchRange(name, low, high, domain.log, domain.integer, domain.zero_is_off))
    return ranges


def _problems_of_one(name: str, value: float, ceilings: Values, floors: Values) -> list[str]:
    knob = HOT_KNOBS.get(name)
    if knob is None and name in ceilings:
        return [] if value in range(int(ceilings[name]) + 1) else [f"{name} has no value of number {value:g}"]
    if knob is None:
        return [f"{name} is no hot knob: expected one of {', '.join(HOT_KNOBS)}"]
    domain = _numbers(name)
    if not math.isfinite(value):
        return [f"{name} is {value}: expected a number of {knob.unit}"]
    if domain.integer and value != int(value):
        return [f"{name} is {value:g}: expected a whole number of {knob.unit}"]
    if domain.zero_is_off and value == 0:
        return []
    low = max(domain.least, floors.get(name, domain.least))
    high = min(domain.most, ceilings.get(name, domain.most))
    if value < low:
        return [f"{name} {value:g} is below {low:g}, the least that this engine can work with"]
    if value > domain.most:
        return [f"{name} {value:g} is above {domain.most:g}, the most there is"]
    if value > high:
        flag = knob.places[-1].text if knob.places else "a larger batch_max_tokens"
        return [f"{name} {value:g} is above {high:g}, its ceiling: only a restart with {flag} raises it"]
    return []


def _numbers(name: str) -> Numbers:
    """The domain of a hot knob: the plugin's values are numbers."""
    domain = HOT_KNOBS[name].domain
    if not isinstance(domain, Numbers):
        raise TypeError(f"{name} is changed hot and not a number")
    return domain
