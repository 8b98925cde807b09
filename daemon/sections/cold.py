"""The configuration's `tune.cold`: what a campaign may do with restarts."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from daemon.sections.base import Section
from tuner.outer.settings import OuterSettings

Value = int | float | bool | str


class ColdSection(Section):
    """Start-up settings: which may move, and for how long each is measured; what a restart may cost is the engine's."""

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
    stint_minutes: Annotated[float, Field(ge=5, le=24 * 60)] = Field(
        default=15, description="how long each start is measured"
    )
    probation_minutes: Annotated[float, Field(ge=5, le=24 * 60)] = Field(
        default=30, description="probation of promoted start-up settings, with automatic return"
    )

    def settings(self, restarts: int, *, lost_minutes: float, gated: bool) -> OuterSettings:
        """What the tuner takes; `gated` says that golden prompts stand in every restart.

        Raises `ValueError` for a number of restarts that cannot decide anything.
        """
        return OuterSettings(
            restarts=restarts,
            lost_minutes=lost_minutes,
            stint_minutes=self.stint_minutes,
            probation_minutes=self.probation_minutes,
            allow=tuple(self.allow),
            knobs=tuple(self.knobs),
            values=tuple((name, tuple(values)) for name, values in self.values.items()),
            gated=gated,
        )
