"""The start-up settings an action asks for: values as they are, `x0.95` as a factor of what is in force."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from change.catalogue.domain import Numbers, told
from change.catalogue.index import knobs_of
from change.catalogue.knob import Engine
from change.server import Setting, Settings
from daemon.acting.values import factor
from rules.actions import ActionRefused

DIGITS = 4
"""Of a share or another number that is not whole."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be set; `unknown` are settings whose value in force nobody knows, so that no factor of it is."""

    settings: dict[str, Setting]
    unknown: tuple[str, ...] = ()


def needs_values(arguments: Mapping[str, Any]) -> bool:
    """Whether a factor is among them."""
    return any(factor(value) is not None for value in _given(arguments).values())


def asked(arguments: Mapping[str, Any], in_force: Settings, engine: Engine) -> Asked:
    """What the arguments of a restart ask for, over settings in force; raises `ActionRefused`."""
    settings: dict[str, Setting] = {}
    unknown: list[str] = []
    for name, value in _given(arguments).items():
        by = factor(value)
        if by is None:
            settings[name] = value
            continue
        current = _current(name, in_force, engine)
        if current is None:
            unknown.append(name)
        else:
            settings[name] = _scaled(name, current, by, engine)
    if unknown and not settings:
        raise ActionRefused(
            f"nobody knows what {', '.join(unknown)} is now, so that no factor of it can be set: give a number"
        )
    return Asked(settings, tuple(unknown))


def _given(arguments: Mapping[str, Any]) -> dict[str, Setting]:
    settings = arguments.get("settings") or {}
    if not isinstance(settings, Mapping):
        raise ActionRefused(f"settings are {settings!r}: expected names and values, as in {{block_size: 64}}")
    wrong = [name for name, value in settings.items() if not isinstance(value, int | float | str | bool)]
    if wrong:
        raise ActionRefused(
            f"settings {', '.join(map(str, wrong))}: expected a number, a text or true or false"
        )
    return {str(name): value for name, value in settings.items()}


def _current(name: str, in_force: Settings, engine: Engine) -> float | None:
    """The number in force; where nobody says it, the engine's own default."""
    value: Setting | None = in_force.get(name)
    knob = knobs_of(engine).get(name)
    if value is None and knob is not None:
        text = knob.default(None)
        value = None if text is None else told(knob.domain, text)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value)


def _scaled(name: str, current: float, by: float, engine: Engine) -> Setting:
    value = current * by
    knob = knobs_of(engine).get(name)
    domain = None if knob is None else knob.domain
    if not isinstance(domain, Numbers):
        return round(value, DIGITS)
    value = min(max(value, domain.least), domain.most)
    return round(value) if domain.integer else round(value, DIGITS)
