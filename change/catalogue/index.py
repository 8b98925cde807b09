"""All knobs by engine and name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from change.catalogue import (
    ascend,
    ascend_config,
    mindie,
    sglang,
    vllm_memory,
    vllm_parallel,
    vllm_scheduler,
)
from change.catalogue.knob import Engine, Knob, Platform


def _named(*groups: tuple[Knob, ...]) -> Mapping[str, Knob]:
    knobs = [knob for group in groups for knob in group]
    named = {knob.name: knob for knob in knobs}
    if len(named) != len(knobs):
        raise ValueError("two knobs of one engine have the same name")
    return MappingProxyType(named)


HOT_KNOBS: Final = _named(vllm_scheduler.HOT)
"""The knobs that change inside the running engine, by name."""

_BY_ENGINE: Mapping[Engine, Mapping[str, Knob]] = {
    "vllm": _named(
        vllm_scheduler.HOT,
        vllm_scheduler.COLD,
        vllm_memory.KNOBS,
        vllm_parallel.KNOBS,
        ascend.VLLM,
        ascend_config.KNOBS,
    ),
    "sglang": _named(sglang.KNOBS, ascend.SGLANG),
    "mindie": _named(mindie.KNOBS),
}


def knobs_of(engine: Engine) -> Mapping[str, Knob]:
    """Every knob of an engine by name, in the order of the catalogue."""
    return _BY_ENGINE[engine]


def engine_named(name: str) -> tuple[Engine, Platform | None]:
    """The engine and, where the name tells it, the platform of what calls itself `name`.

    `vllm-ascend` is vLLM on Ascend, and MindIE runs nowhere else. Raises `ValueError` for another name.
    """
    match name:
        case "vllm-ascend":
            return "vllm", "ascend"
        case "vllm" | "sglang":
            return name, None
        case "mindie":
            return "mindie", "ascend"
    raise ValueError(f"engine {name!r}: expected vllm, vllm-ascend, sglang or mindie")
