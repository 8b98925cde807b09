"""The part of the configuration file that is about the adaptive mode: batch limits that follow the traffic."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from daemon.sections.base import Section
from tuner.batcher import BatcherSettings

LEAST_LEASE_SECONDS = 15.0
"""It looks every few seconds: a shorter lease would run out between two looks that come late."""


class AdaptiveSection(Section):
    """Limits of sequences and prefill that follow predicted lengths and arrivals, around what is promoted."""

    enabled: bool = Field(
        default=False,
        description="move batch and prefill limits with the traffic, between campaigns; wants mode act",
    )
    change_seconds: Annotated[float, Field(ge=5, le=3600)] = Field(
        default=BatcherSettings().change_seconds, description="at most one change in so many seconds"
    )
    margin: Annotated[float, Field(ge=0, le=6)] = Field(
        default=BatcherSettings().deviations,
        description="standard deviations kept free of what memory would hold",
    )
    hold_seconds: Annotated[float, Field(ge=0, le=24 * 3600)] = Field(
        default=BatcherSettings().hold_seconds,
        description="how long it stays away after the SLO sent it back",
    )

    def settings(self) -> BatcherSettings:
        """What the mind takes."""
        return BatcherSettings(self.change_seconds, self.margin, self.hold_seconds)

    def against(self, mode: str, engine_kind: str, lease_seconds: float) -> str | None:
        """Why it cannot work beside the rest of the file, or None."""
        if not self.enabled:
            return None
        if mode != "act":
            return f"adaptive.enabled needs mode act, and mode is {mode}: it changes limits without asking"
        if engine_kind in ("sglang", "mindie"):
            return f"adaptive.enabled needs vLLM with its plugin: nothing is changed hot in {engine_kind}"
        if lease_seconds < LEAST_LEASE_SECONDS:
            return (
                f"lease_seconds is {lease_seconds:g}: adaptive.enabled needs {LEAST_LEASE_SECONDS:g} or more"
            )
        return None
