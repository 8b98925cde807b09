"""An action with its variables filled in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rules.actions import Action
from rules.playbook.action_forms import hot_value
from rules.playbook.variables import VariableError, said


def filled(action: Action, values: Mapping[str, str]) -> Action:
    """Fill the variables in. Raises `VariableError` for one without a value, or with one that does not fit."""
    arguments = _filled(action.arguments, values)
    if action.kind == "set_knobs":
        arguments = {name: _hot(name, value) for name, value in arguments.items()}
    return replace(action, arguments=arguments)


def _filled(value: Any, values: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return said(value, values)
    if isinstance(value, Mapping):
        return {name: _filled(inner, values) for name, inner in value.items()}
    return value


def _hot(name: str, value: Any) -> Any:
    try:
        return hot_value(float(value) if isinstance(value, str) and not value.startswith("x") else value)
    except ValueError as error:
        raise VariableError(f"{name}: {error}") from error
