"""The knob catalogue: what may be changed in an engine, where, in which bounds, and what is never valid.

Sources: the engine's own argument and scheduler classes by version, and measurements on vLLM 0.28.0 and
0.32.0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from change.choices import Options, words
from change.cold_knobs import OTHER_KNOBS, OtherKnob
from change.engine import Values
from change.host_knobs import HOST_KNOBS
from change.versions import Release, release, within

Lane = Literal["hot", "host", "cold"]
NO_HOST_LANE = (
    "it needs the engine's plugin, mode act, and the host's knobs to be allowed and changeable from here "
    "(`trimtab host show`)"
)
NOT_YET = "not changed by Trimtab yet"


@dataclass(frozen=True, slots=True)
class Attribute:
    """Where a hot knob lives inside the engine, from version `since` to before `until`."""

    path: str
    since: str
    until: str | None = None


@dataclass(frozen=True, slots=True)
class Knob:
    """One hot knob.

    `least` and `most` are hard bounds whatever the engine; `low` and `high` bound the search, inside the
    engine's own floors and ceilings. With `zero_is_off`, 0 means no cap and stands outside the bounds.
    """

    name: str
    lane: Lane
    kind: Literal["int", "float"]
    unit: str
    least: float
    most: float
    low: float
    high: float
    log: bool
    zero_is_off: bool
    flag: str | None
    attributes: tuple[Attribute, ...]
    help: str

    @property
    def integer(self) -> bool:
        """Whether only whole numbers make sense."""
        return self.kind == "int"

    def attribute(self, version: Release) -> str | None:
        """Where the knob lives in a version, or None if it does not exist there."""
        return next((a.path for a in self.attributes if within(version, a.since, a.until)), None)


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


@dataclass(frozen=True, slots=True)
class KnobRow:
    """One row of the catalogue as it applies to one engine version."""

    name: str
    lane: str
    kind: str
    unit: str
    low: float | None
    high: float | None
    flag: str | None
    attribute: str | None
    state: str
    help: str


# A token budget or cap is never useful beyond this, and the engine's ceiling is far below it.
_MANY_TOKENS = 1_048_576

_ALL = (
    Knob(
        name="batch_max_tokens",
        lane="hot",
        kind="int",
        unit="tokens",
        least=1,
        most=_MANY_TOKENS,
        low=64,
        high=65536,
        log=True,
        zero_is_off=False,
        flag="--max-num-batched-tokens",
        attributes=(Attribute("Scheduler.max_num_scheduled_tokens", "0.9.2"),),
        help="Tokens one engine step may hold: prompt tokens of new requests plus one per decoding request. "
        "More fills the chip better, fewer make steps short. The launch value is the ceiling; Ascend's "
        "default is 2048.",
    ),
    Knob(
        name="max_prefill_tokens",
        lane="hot",
        kind="int",
        unit="tokens",
        least=1,
        most=_MANY_TOKENS,
        low=64,
        high=16384,
        log=True,
        zero_is_off=True,
        flag=None,
        attributes=(Attribute("the plugin's wrapper of Scheduler.schedule", "0.9.2"),),
        help="Prompt tokens one engine step may hold over all requests; decoding requests come on top. "
        "Keeps decode steps short while long prompts come in. 0 is no cap. vLLM has no flag for it.",
    ),
    Knob(
        name="long_prefill_tokens",
        lane="hot",
        kind="int",
        unit="tokens",
        least=1,
        most=_MANY_TOKENS,
        low=64,
        high=16384,
        log=True,
        zero_is_off=True,
        flag="--long-prefill-token-threshold",
        attributes=(Attribute("Scheduler.scheduler_config.long_prefill_token_threshold", "0.9.2"),),
        help="Prompt tokens one engine step may take of one request, so that a long prompt leaves room for "
        "short ones. 0 is no cap. From 0.31 on it does not apply to a request that is alone.",
    ),
    Knob(
        name="max_num_seqs",
        lane="hot",
        kind="int",
        unit="requests",
        least=1,
        most=65536,
        low=8,
        high=2048,
        log=True,
        zero_is_off=False,
        flag="--max-num-seqs",
        attributes=(
            Attribute("Scheduler.max_num_running_reqs", "0.9.2", "0.31.0"),
            Attribute("Scheduler.max_num_active_reqs", "0.31.0"),
        ),
        help="Requests that may run at once; the others wait. The launch value is the ceiling; Ascend's "
        "default is 256. Lowered, the running ones finish first.",
    ),
    Knob(
        name="watermark",
        lane="hot",
        kind="float",
        unit="share of KV blocks",
        least=0.0,
        most=0.99,
        low=0.0,
        high=0.2,
        log=False,
        zero_is_off=False,
        flag="--watermark",
        attributes=(Attribute("Scheduler.kv_cache_manager.watermark_blocks", "0.24.0"),),
        help="Share of the KV cache kept free when a request is admitted. More means fewer preemptions, "
        "less means more requests at once.",
    ),
)
HOT_KNOBS: Mapping[str, Knob] = MappingProxyType({knob.name: knob for knob in _ALL})
"""The knobs that change inside the running engine, by name."""


def catalogue(engine: str, version: str | None) -> list[KnobRow]:
    """List every known knob as it applies to an engine (`vllm`, `vllm-ascend`, `sglang`, `mindie`) and version.

    Without a version each row says since when it exists. Raises `ValueError` for an engine or version not
    known.
    """
    family = "vllm" if engine == "vllm-ascend" else engine
    if family not in ("vllm", "sglang", "mindie"):
        raise ValueError(f"engine {engine!r}: expected vllm, vllm-ascend, sglang or mindie")
    at = None if version is None else release(version)
    hot = [_hot_row(knob, at) for knob in _ALL] if family == "vllm" else []
    return hot + [_other_row(knob, at) for knob in OTHER_KNOBS if knob.engine == family]


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
    """Say where the tuner may look, for the knobs named (all that the engine has, if none are).

    `values` is the incumbent: each range holds it. A knob with nothing to search is left out. Raises
    `ValueError` for a name that is no hot knob or that this engine does not have.
    """
    choices = [name for name in values if name not in HOT_KNOBS]
    wanted = list(names) or [name for name in HOT_KNOBS if name in values] + choices
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
        knob = HOT_KNOBS[name]
        low = max(knob.low, floors.get(name, knob.low))
        high = min(knob.high, ceilings.get(name, knob.high))
        if name == "batch_max_tokens" and "max_num_seqs" not in wanted:
            low = max(low, values.get("max_num_seqs", low))
        if not (knob.zero_is_off and values[name] == 0):
            low, high = min(low, values[name]), max(high, values[name])
        if low < high:
            ranges.append(SearchRange(name, low, high, knob.log, knob.integer, knob.zero_is_off))
    return ranges


def _problems_of_one(name: str, value: float, ceilings: Values, floors: Values) -> list[str]:
    knob = HOT_KNOBS.get(name)
    if knob is None and name in ceilings:
        return [] if value in range(int(ceilings[name]) + 1) else [f"{name} has no value of number {value:g}"]
    if knob is None:
        return [f"{name} is no hot knob: expected one of {', '.join(HOT_KNOBS)}"]
    if not math.isfinite(value):
        return [f"{name} is {value}: expected a number of {knob.unit}"]
    if knob.integer and value != int(value):
        return [f"{name} is {value:g}: expected a whole number of {knob.unit}"]
    if knob.zero_is_off and value == 0:
        return []
    low = max(knob.least, floors.get(name, knob.least))
    high = min(knob.most, ceilings.get(name, knob.most))
    if value < low:
        return [f"{name} {value:g} is below {low:g}, the least that this engine can work with"]
    if value > high:
        return [f"{name} {value:g} is above {high:g}, its ceiling: only a restart with {knob.flag} raises it"]
    return []


def _hot_row(knob: Knob, at: Release | None) -> KnobRow:
    since = knob.attributes[0].since
    attribute = knob.attributes[-1].path if at is None else knob.attribute(at)
    if at is None:
        state = f"hot since {since}"
    else:
        state = f"not in this version: since {since}" if attribute is None else "hot"
    return KnobRow(
        knob.name,
        knob.lane,
        knob.kind,
        knob.unit,
        knob.low,
        knob.high,
        knob.flag,
        attribute,
        state,
        knob.help,
    )


def _other_row(knob: OtherKnob, at: Release | None) -> KnobRow:
    state = NOT_YET
    if at is not None and not within(at, knob.since, None):
        state = f"not in this version: since {knob.since}"
    elif knob.until is not None and (at is None or not within(at, None, knob.until)):
        state = f"gone since {knob.until}"
    return KnobRow(knob.name, knob.lane, knob.kind, knob.unit, None, None, knob.flag, None, state, knob.help)
