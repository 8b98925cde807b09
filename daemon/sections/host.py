"""The configuration of what is read of the host."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from daemon.sections.base import Interval, Section


class HostSource(Section):
    """Processors and memory of the host."""

    enabled: bool = Field(default=True, description="read it")
    interval_seconds: Interval = Field(default=5.0, description="how often it is read")


class NumaSource(Section):
    """NUMA nodes of the host, and the node of each NPU."""

    enabled: bool = Field(default=True, description="read them")
    interval_seconds: Interval = Field(default=30.0, description="how often they are read")


class EngineProcessesSource(Section):
    """Memory of each of the engine's processes."""

    enabled: bool = Field(default=True, description="read it")
    interval_seconds: Interval = Field(default=15.0, description="how often it is read")


class EngineThreadsSource(Section):
    """Where the engine's threads run."""

    enabled: bool = Field(default=True, description="read it")
    interval_seconds: Interval = Field(default=15.0, description="how often it is read")


class EnginePagesSource(Section):
    """On which NUMA nodes the engine's memory lies."""

    enabled: bool = Field(default=True, description="read it; the kernel walks every page to answer")
    interval_seconds: Interval = Field(default=240.0, description="how often it is read")


class HostSettingsSource(Section):
    """Huge pages, governor and other settings of the host."""

    enabled: bool = Field(default=True, description="read them")
    interval_seconds: Interval = Field(default=60.0, description="how often they are read")


class InterruptsSource(Section):
    """Interrupts of the NPUs."""

    enabled: bool = Field(default=True, description="read them")
    interval_seconds: Interval = Field(default=60.0, description="how often they are read")


class StalledCyclesSource(Section):
    """Stalled cycles of the engine's processes, counted by perf."""

    enabled: bool = Field(default=False, description="count them")
    command: Annotated[str, Field(min_length=1)] = Field(
        default="perf", description="program: a name or a path"
    )
    seconds: Annotated[float, Field(ge=0.1, le=10)] = Field(
        default=1.0, description="how long is counted each time"
    )
    interval_seconds: Interval = Field(default=60.0, description="how often it is run")
