"""The device's fault events: 32 bits of which each part has a meaning.

The device management writes `Event id=0x80e01801`, `event_id=0x80e01801`, or the parts: `Node Type=0x70; Sensor
Type=0xc; ... event_state=1)`. Bit 31 is set; then 14 bits of node type (what it happened in), 8 bits of sensor type
and 9 bits of state (what happened).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict

Severity = Literal["critical", "error", "warning", "info"]

_ID = re.compile(r"[Ee]vent[_ ]id ?[:=]\s{0,4}\[?0x([0-9a-fA-F]{8})\b")
_NODE = re.compile(r"Node Type ?= ?0x([0-9a-fA-F]{1,4});")
_SENSOR = re.compile(r"Sensor Type ?= ?0x([0-9a-fA-F]{1,2});")
_STATE = re.compile(r"event_state ?= ?(\d{1,3})\b")


def _hexadecimal(value: object) -> object:
    return {int(str(key), 16): inner for key, inner in value.items()} if isinstance(value, dict) else value


class Kind(BaseModel):
    """What a sensor type and a state say happened."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    meaning: str
    severity: Severity = "error"


class FaultTable(BaseModel):
    """The data file: units by node type, kinds by the low 17 bits, and events that mean something else."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    units: Annotated[dict[int, str], BeforeValidator(_hexadecimal)]
    kinds: Annotated[dict[int, Kind], BeforeValidator(_hexadecimal)]
    special: Annotated[dict[int, Kind], BeforeValidator(_hexadecimal)]


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault event; `meaning` is None where neither the unit nor the kind is known, `whole` if both are."""

    event_id: int
    meaning: str | None
    severity: Severity
    whole: bool


@cache
def fault_table() -> FaultTable:
    """The meanings that are known."""
    text = files("collectors.logs").joinpath("fault_events.yaml").read_text(encoding="utf-8")
    return FaultTable.model_validate(yaml.safe_load(text))


def fault(event_id: int) -> Fault:
    """What an event id means, as far as it is known."""
    table = fault_table()
    special = table.special.get(event_id)
    if special is not None:
        return Fault(event_id, special.meaning, special.severity, True)
    unit = table.units.get((event_id & 0x7FFFFFFF) >> 17)
    kind = table.kinds.get(event_id & 0x1FFFF)
    if unit is None and kind is None:
        return Fault(event_id, None, "error", False)
    severity: Severity = kind.severity if kind is not None else "error"
    return Fault(
        event_id,
        f"{unit or 'unknown unit'}: {kind.meaning if kind is not None else 'unknown kind of fault'}",
        severity,
        unit is not None and kind is not None,
    )


def fault_in(text: str) -> Fault | None:
    """The fault event a line tells of, or None."""
    if "vent" not in text:
        return None
    if found := _ID.search(text):
        return fault(int(found[1], 16))
    # One after the other, each from where the last one ended, so that no line takes long.
    node = _NODE.search(text)
    sensor = _SENSOR.search(text, node.end()) if node else None
    state = _STATE.search(text, sensor.end()) if sensor else None
    if not (node and sensor and state) or int(node[1], 16) >= 2**14 or int(state[1]) >= 2**9:
        return None
    return fault(1 << 31 | int(node[1], 16) << 17 | int(sensor[1], 16) << 9 | int(state[1]))
