"""The configuration's `tune.cold`: what a campaign may do with restarts."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from daemon.sections.base import Section
from tuner.outer.settings import OuterSettings

Value = int | float | bool | str


class ColdSection(Section):
    """Start-up settings: which may move, when, and at what price."""

    allow: list[str] = Field(
        default=[],
        description="start-up settings that move only if named here: parallel sizes, quantization, kv_cache_dtype",
    )
    knobs: list[str] = Field(
        default=[],
        description="start-up settings a campaign may move; none: every one known that needs no word",
    )
    values: dict[str, list[Value]] = Field(
        default={}, description="your own values for a start-up setting, in order"
    )
    lost_minutes: Annotated[float, Field(gt=0, le=24 * 60)] = Field(
        default=60, description="capacity a campaign may lose to restarts, minutes"
    )
    stint_minutes: Annotated[float, Field(ge=5, le=24 * 60)] = Field(
        default=15, description="how long each start is measured"
    )
    probation_minutes: Annotated[float, Field(ge=5, le=24 * 60)] = Field(
        default=30, description="probation of promoted start-up settings, with automatic return"
    )
    accuracy_gate: bool = Field(
        default=False,
        description="an accuracy gate stands in every restart: quantization and KV type may move",
    )

    def settings(self, restarts: int) -> OuterSettings:
        """What the tuner takes; raises `ValueError` for a number of restarts that cannot decide anything."""
        return OuterSettings(
            restarts=restarts,
            lost_minutes=self.lost_minutes,
            stint_minutes=self.stint_minutes,
            probation_minutes=self.probation_minutes,
            allow=tuple(self.allow),
            knobs=tuple(self.knobs),
            values=tuple((name, tuple(values)) for name, values in self.values.items()),
            gated=self.accuracy_gate,
        )
