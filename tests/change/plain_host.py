"""A host whose knobs are values in a dict, which can fail or lie when told to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from change.host import HostChange, HostError, HostReading
from change.host_knobs import HOST_KNOBS


class Killed(BaseException):
    """The daemon died here."""


class PlainHost:
    """Implements `change.host.HostControl`; `calls` counts what changes something, and dies at call `dies_at`."""

    def __init__(self) -> None:
        self.values = {"placement": "as_found", "memory": "as_found", "swappiness": "60"}
        self.stuck: set[str] = set()
        self.broken: set[str] = set()
        self.calls = 0
        self.dies_at: int | None = None
        self.dies_after = False

    async def choices(self) -> Mapping[str, tuple[str, ...]]:
        return {
            "placement": (self.values["placement"], "split:4", "whole:4"),
            "swappiness": (self.values["swappiness"], "10"),
        }

    async def read(self, knob: str) -> HostReading:
        if knob not in HOST_KNOBS:
            raise HostError(f"there is no {knob}")
        scope = HOST_KNOBS[knob].scope
        value = self.values.get(knob)
        if value is None:
            return HostReading(knob, scope, None, "it is not here")
        return HostReading(knob, scope, value, undo={"value": value})

    async def apply(self, change: HostChange) -> HostReading:
        knob = HOST_KNOBS.get(change.knob)
        if knob is None or (problem := knob.problem(change.value)):
            raise HostError(f"there is no {change.knob}" if knob is None else str(problem))
        self._set(change.knob, change.value)
        return await self.read(change.knob)

    async def restore(self, knob: str, undo: Mapping[str, Any]) -> HostReading:
        self._set(knob, undo["value"])
        return await self.read(knob)

    def _set(self, knob: str, value: str) -> None:
        self.calls += 1
        if self.calls == self.dies_at and not self.dies_after:
            raise Killed
        if knob in self.broken:
            raise HostError(f"{knob} cannot be set")
        if knob not in self.stuck:
            self.values[knob] = value
        if self.calls == self.dies_at:
            raise Killed
