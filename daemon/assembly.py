"""Build the parts that a configuration asks for."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from change.engine import EngineControl, EngineError
from change.journal import Journal
from collectors import torch_npu
from collectors.dcmi.dcmi import DcmiCollector
from collectors.hccn.hccn import HccnCollector
from collectors.history import History
from collectors.identity import Identities
from collectors.logs.find import Pattern
from collectors.logs.logs import LogsCollector, ascend_patterns
from collectors.npu_exporter.npu_exporter import NpuExporterCollector
from collectors.npu_exporter.npu_exporter_links import NpuExporterLinksCollector
from collectors.npu_smi.npu_smi import NpuSmiCollector
from collectors.npu_smi.npu_smi_details import NpuSmiDetailsCollector
from collectors.npu_smi.npu_smi_watch import NpuSmiWatchCollector
from collectors.npu_smi.program import NpuSmi
from collectors.page import PageSource, SharedPage
from collectors.runner import Runner
from collectors.sample import Collector, CollectorError
from daemon import credentials
from daemon.config import Config
from daemon.engine.effective import EffectiveReader
from daemon.engine.hot import HotEngine
from daemon.engine_probe import tls_verification
from daemon.engine_process import EngineProcess
from daemon.engine_sources import engine_sources, stall_probe
from daemon.errors import ConfigError
from daemon.host.binding_log import BindingLog
from daemon.host.hand import HostHand
from daemon.host.parts import host_hand
from daemon.host_lane import HostLane, near_nodes
from daemon.host_sources import host_collectors
from daemon.modes import Modes
from daemon.paths import ascend_log_dir, state_dir
from daemon.quiet_hours import QuietHours
from daemon.sections.collect import NpuSmiSource

NPU_EXPORTER_SECONDS = 4.0
"""Longest wait for its page, which is long: less than the five seconds between two readings."""


def hot_engine(config: Config) -> HotEngine:
    """The engine's hot lane; raises `ConfigError` for a secret or certificate that cannot be used."""
    tls = config.engine.tls
    try:
        return HotEngine(
            config.engine.url,
            token=credentials.plugin_token(config),
            api_key=credentials.engine_api_key(config),
            verify=tls.ca_file if tls.ca_file is not None and tls.verify else tls.verify,
            root_path=config.engine.root_path,
            timeout=config.engine.timeout_seconds,
        )
    except EngineError as error:
        raise ConfigError(str(error)) from error


def effective_reader(config: Config) -> EffectiveReader:
    """What reads back the engine's launch settings; raises `ConfigError` as `hot_engine` does."""
    engine = config.engine
    api_key = credentials.engine_api_key(config)
    return EffectiveReader(
        engine.url + engine.root_path,
        metrics_url=engine.metrics_url,
        headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
        tls=tls_verification(config),
        timeout_seconds=engine.timeout_seconds,
    )


def collectors(config: Config, history: History, *, lasting: bool = True) -> list[Collector]:
    """The sources of samples, in the order in which they are shown; some ask `history` for what others read.

    With `lasting` false, for a single look, no source keeps where it left off.
    """
    collect = config.collect
    engine_pid = EngineProcess(config.engine.url).pid
    try:
        found: list[Collector] = engine_sources(config, engine_pid)
        settings = collect.npu_smi
        npu_smi = (
            NpuSmi((settings.command,), timeout_seconds=settings.timeout_seconds)
            if config.reads_npu_smi
            else None
        )
        if npu_smi is not None:
            found += _npu_smi(npu_smi, settings)
        exporter = collect.npu_exporter
        if exporter.url is not None:
            page = SharedPage(PageSource(exporter.url, timeout_seconds=NPU_EXPORTER_SECONDS))
            found += [
                NpuExporterCollector(page, interval_seconds=exporter.interval_seconds),
                NpuExporterLinksCollector(page, interval_seconds=exporter.links_interval_seconds),
            ]
    except (ValueError, CollectorError) as error:
        raise ConfigError(str(error)) from error
    found += _device_sources(config, Identities(history, awaited=config.reads_npu_smi))
    found += host_collectors(collect, history, engine_pid, npu_smi)
    if collect.logs.enabled:
        found.append(_logs(config, lasting))
    return found


def _npu_smi(program: NpuSmi, settings: NpuSmiSource) -> list[Collector]:
    """The sources that npu-smi is, fastest last; they share one program, which answers one at a time."""
    found: list[Collector] = [NpuSmiCollector(program, interval_seconds=settings.interval_seconds)]
    if settings.details:
        interval = settings.details_interval_seconds
        found.append(NpuSmiDetailsCollector(program, interval_seconds=interval))
    if settings.watch:
        found.append(NpuSmiWatchCollector(program, interval_seconds=settings.watch_interval_seconds))
    return found


def _device_sources(config: Config, identities: Identities) -> list[Collector]:
    """The optional sources of the node shape: each where what it reads is there, unless the file says otherwise."""
    dcmi, hccn = config.collect.dcmi, config.collect.hccn
    near = config.deployment != "sidecar"
    found: list[Collector] = []
    if (near and dcmi.library.exists()) if dcmi.enabled is None else dcmi.enabled:
        found.append(
            DcmiCollector(dcmi.library, identities=identities, interval_seconds=dcmi.interval_seconds)
        )
    there = hccn.config_file.exists() and shutil.which(hccn.command) is not None
    if (near and there) if hccn.enabled is None else hccn.enabled:
        found.append(
            HccnCollector(
                hccn.command,
                conf=hccn.config_file,
                ping=[str(address) for address in hccn.ping],
                identities=identities,
                interval_seconds=hccn.interval_seconds,
                timeout_seconds=hccn.timeout_seconds,
            )
        )
    if torch_npu.loaded() is not None:
        found.append(torch_npu.TorchNpuCollector())
    return found


def log_patterns(config: Config) -> list[Pattern]:
    """The log files of the Ascend stack and of the engine."""
    logs = config.collect.logs
    return [
        *ascend_patterns(logs.ascend_dir or ascend_log_dir()),
        *(Pattern("engine", name) for name in logs.engine),
    ]


def _logs(config: Config, lasting: bool) -> LogsCollector:
    logs = config.collect.logs
    kmsg = config.deployment != "sidecar" if logs.kmsg is None else logs.kmsg
    return LogsCollector(
        log_patterns(config),
        positions_file=state_dir() / "log-positions.json",
        remembers=lasting,
        kmsg=Path("/dev/kmsg") if kmsg and not logs.journald else None,
        journal=("journalctl",) if logs.journald else None,
        interval_seconds=logs.interval_seconds,
    )


def runner(config: Config, history: History, *, lasting: bool = True) -> Runner:
    """What reads the sources into the history.

    With `lasting` false, for a single look, no source keeps where it left off, and nothing is derived: that takes
    minutes of readings.
    """
    collect = config.collect
    found = collectors(config, history, lasting=lasting)
    if collect.probe.enabled:
        found.append(stall_probe(config, history))
    derived = collect.derived
    if lasting and derived.enabled:
        # Here and not above: its statistics take a second to load, for which a command need not wait.
        from collectors.derived import DerivedCollector

        found.append(
            DerivedCollector(history, interval_seconds=derived.interval_seconds, engines=derived.engines)
        )
    # The npu-smi sources wait for each other.
    npu_smi = 3 * collect.npu_smi.timeout_seconds + 20.0
    limits = {
        # These end and kill their own children, or keep their own time; the runner's is only a second net.
        **dict.fromkeys(("npu_smi", "npu_smi_details", "npu_smi_watch"), npu_smi),
        "hccn": collect.hccn.interval_seconds,
        "dcmi": collect.dcmi.timeout_seconds,
        "stall_probe": collect.probe.timeout_seconds + 5.0,
    }
    names = {collector.name for collector in found}
    timeouts = {name: seconds for name, seconds in limits.items() if name in names}
    return Runner(found, history, timeouts=timeouts)


def host_lane_hand(config: Config, history: History) -> HostHand:
    """The hand on the host of the configured engine; which nodes are near its NPUs is taken from `history`."""
    log = BindingLog([pattern for pattern in log_patterns(config) if pattern.kind == "engine"])
    return host_hand(
        EngineProcess(config.engine.url).pid,
        allowed=config.host.knobs,
        near=lambda pids: near_nodes(history, config.own_card, pids),
        binding=log.binding,
    )


def host_lane(config: Config, control: EngineControl, journal: Journal, history: History) -> HostLane:
    """What changes the host of the configured engine, through its journal and locks."""
    engine_pid = EngineProcess(config.engine.url).pid
    return HostLane(host_lane_hand(config, history), control, journal, lock_dir(config), engine_pid)


async def near_readings(config: Config, history: History) -> None:
    """Read once what tells which nodes are near the NPUs; what cannot be read stays unknown."""
    found = collectors(config, history, lasting=False)
    for names in (("npu_smi", "npu_exporter"), ("numa",)):  # the second asks the first for the devices
        await Runner([one for one in found if one.name in names], history).once(time.time())


def modes(config: Config) -> Modes:
    """The mode with what can stop the mind."""
    return Modes(
        config.mode,
        config.run_dir / "paused",
        config.kill_switch_file,
        tuple(QuietHours.parse(span) for span in config.tune.quiet_hours),
    )


def lock_dir(config: Config) -> Path:
    """Where the engines' locks are."""
    return config.run_dir / "locks"
