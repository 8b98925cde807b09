"""The sources of samples: what each is read from, and how often."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator

from daemon.sections.base import FilePath, Interval, Seconds, Section, Url
from daemon.sections.derived import DerivedSource
from daemon.sections.devices import DcmiSource, HccnSource
from daemon.sections.engine import ProbeSection, WatchedEngineSection
from daemon.sections.host import (
    EnginePagesSource,
    EngineProcessesSource,
    EngineThreadsSource,
    HostSettingsSource,
    HostSource,
    InterruptsSource,
    NumaSource,
    StalledCyclesSource,
)


class VllmSource(Section):
    """The metrics page of the tuned engine and of those watched beside it."""

    interval_seconds: Interval = Field(default=1.0, description="how often it is read")


class NpuSmiSource(Section):
    """The npu-smi command."""

    enabled: bool | None = Field(default=None, description="unset: on, but off in the sidecar shape")
    command: Annotated[str, Field(min_length=1)] = Field(
        default="npu-smi", description="program: a name or a path"
    )
    interval_seconds: Interval = Field(default=10.0, description="how often it is run")
    timeout_seconds: Seconds = Field(default=15.0, description="longest wait for it")
    watch: bool = Field(default=True, description="keep one `npu-smi info watch` running")
    watch_interval_seconds: Interval = Field(default=1.0, description="how often its last rows are taken")
    details: bool = Field(default=True, description="ask `npu-smi info -t TYPE` in rotation")
    details_interval_seconds: Interval = Field(default=30.0, description="how often some of them are asked")


class NpuExporterSource(Section):
    """The npu-exporter's /metrics: the sidecar shape's source of NPU readings."""

    url: Url | None = Field(
        default=None,
        description="address of its page, for example http://127.0.0.1:8082/metrics; not beside npu-smi",
    )
    interval_seconds: Interval = Field(default=5.0, description="how often it is read")
    links_interval_seconds: Interval = Field(
        default=30.0, description="how often its figures of single links and ports are read"
    )


class LogsSource(Section):
    """Logs of the Ascend stack, the engine and the kernel."""

    enabled: bool = Field(default=True, description="read them")
    ascend_dir: FilePath | None = Field(
        default=None, description="CANN's log folder; unset: $ASCEND_PROCESS_LOG_PATH, else ~/ascend/log"
    )
    engine: list[str] = Field(default=[], description="files with what the engine prints: paths or globs")
    kmsg: bool | None = Field(default=None, description="/dev/kmsg; unset: on, but off in the sidecar shape")
    journald: bool = Field(default=False, description="read the kernel's log of the journal instead")
    interval_seconds: Interval = Field(default=5.0, description="how often they are read")


class CollectSection(Section):
    """The sources of samples."""

    vllm: VllmSource = VllmSource()
    npu_smi: NpuSmiSource = NpuSmiSource()
    npu_exporter: NpuExporterSource = NpuExporterSource()
    dcmi: DcmiSource = DcmiSource()
    hccn: HccnSource = HccnSource()
    host: HostSource = HostSource()
    numa: NumaSource = NumaSource()
    engine_processes: EngineProcessesSource = EngineProcessesSource()
    engine_threads: EngineThreadsSource = EngineThreadsSource()
    engine_pages: EnginePagesSource = EnginePagesSource()
    host_settings: HostSettingsSource = HostSettingsSource()
    interrupts: InterruptsSource = InterruptsSource()
    stalled_cycles: StalledCyclesSource = StalledCyclesSource()
    derived: DerivedSource = DerivedSource()
    logs: LogsSource = LogsSource()
    engines: list[WatchedEngineSection] = Field(default=[])
    probe: ProbeSection = ProbeSection()

    def reads_npu_smi(self, deployment: str) -> bool:
        """Whether npu-smi is run in a shape: a sidecar has no devices and must not open them."""
        return deployment != "sidecar" if self.npu_smi.enabled is None else self.npu_smi.enabled

    @field_validator("engines")
    @classmethod
    def _named_apart(cls, engines: list[WatchedEngineSection]) -> list[WatchedEngineSection]:
        seen: set[str] = set()
        for engine in engines:
            if engine.name in seen:
                raise ValueError(f"two engines are named {engine.name!r}: each needs a name of its own")
            seen.add(engine.name)
        return engines
