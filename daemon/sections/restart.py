"""The part of the configuration file that is about restarts of the engine: patience, window, budget, golden prompts."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from change.restart.milestones import STEP_SECONDS
from change.restart.settings import RestartSettings
from collectors.engines.families import KindName
from daemon.quiet_hours import QuietHours, local_minute
from daemon.sections.base import Seconds, Section

_OWN = RestartSettings()


def _span(value: str) -> str:
    return str(QuietHours.parse(value))


class LoadSection(Section):
    """How long each step of a start may take before it counts as hung."""

    begin_seconds: Seconds = Field(
        default=STEP_SECONDS["begin"], description="from the start to where the weights are begun"
    )
    weights_seconds: Seconds = Field(default=STEP_SECONDS["weights"], description="loading the weights")
    memory_seconds: Seconds = Field(
        default=STEP_SECONDS["memory"], description="measuring memory and making the KV cache"
    )
    graphs_seconds: Seconds = Field(default=STEP_SECONDS["graphs"], description="capturing graphs")
    serve_seconds: Seconds = Field(default=STEP_SECONDS["serve"], description="from there to serving")


class GoldenPrompt(Section):
    """One prompt whose answer is known: greedy, without sampling."""

    prompt: Annotated[str, Field(min_length=1, max_length=20000)] = Field(description="the prompt's text")
    tokens: Annotated[list[str], Field(min_length=1, max_length=256)] = Field(
        description="the tokens that are expected, as the engine's logprobs spell them"
    )


class RestartSection(Section):
    """Restarts of the engine that `engine.server` names."""

    window: list[Annotated[str, AfterValidator(_span)]] = Field(
        default=[], description="spans of the day in which a campaign may restart the engine; unset: any time"
    )
    per_day: Annotated[int, Field(ge=0, le=1000)] = Field(
        default=12, description="starts of the engine that campaigns may spend in 24 hours, ways back counted"
    )
    lost_minutes_per_day: Annotated[float, Field(ge=0, le=1440)] = Field(
        default=60, description="minutes without service that campaigns may spend in 24 hours"
    )
    drain_seconds: Seconds = Field(
        default=_OWN.drain_seconds, description="longest wait for requests inside to finish"
    )
    release_seconds: Seconds = Field(
        default=_OWN.release_seconds, description="longest wait for the old engine's device memory to be free"
    )
    load: LoadSection = LoadSection()
    health_seconds: Seconds = Field(
        default=_OWN.health_seconds, description="longest wait for a loaded engine to be well"
    )
    probe_seconds: Seconds = Field(
        default=_OWN.probe_seconds, description="longest wait for one token, and for a request of the warm-up"
    )
    warm_up_requests: Annotated[int, Field(ge=0, le=1000)] = Field(
        default=_OWN.warm_up_requests, description="requests sent before anybody is let in"
    )
    watch_seconds: Annotated[float, Field(ge=0, le=3600)] = Field(
        default=_OWN.watch_seconds,
        description="how long a fresh start is watched for SLO violations; it returns if they burn",
    )
    gate_lease_seconds: Annotated[float, Field(ge=10, le=120)] = Field(
        default=_OWN.lease_seconds,
        description="a gate that nobody holds closed any more opens after this long",
    )
    retry_after_seconds: Annotated[float, Field(ge=1, le=600)] = Field(
        default=_OWN.retry_after_seconds, description="what clients are told to wait at the closed gate"
    )
    least_disk_mib: Annotated[int, Field(ge=0)] = Field(
        default=_OWN.least_disk_bytes // 2**20, description="free disk without which nothing is restarted"
    )
    golden: list[GoldenPrompt] = Field(
        default=[],
        description="prompts with their expected tokens, asked before a changed precision serves",
    )

    def open_at(self, now: float) -> bool:
        """Whether the maintenance window is open at a Unix time."""
        minute = local_minute(now)
        return not self.window or any(QuietHours.parse(span).holds(minute) for span in self.window)

    def settings(self, kind: KindName, grace_seconds: float) -> RestartSettings:
        """What a restart takes; the grace is the hand's."""
        load = self.load
        return RestartSettings(
            kind=kind,
            drain_seconds=self.drain_seconds,
            grace_seconds=grace_seconds,
            release_seconds=self.release_seconds,
            step_seconds={step: getattr(load, f"{step}_seconds") for step in STEP_SECONDS},
            health_seconds=self.health_seconds,
            probe_seconds=self.probe_seconds,
            warm_up_requests=self.warm_up_requests,
            watch_seconds=self.watch_seconds,
            lease_seconds=self.gate_lease_seconds,
            retry_after_seconds=self.retry_after_seconds,
            least_disk_bytes=self.least_disk_mib * 2**20,
        )
