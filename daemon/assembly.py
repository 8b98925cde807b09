"""Build the parts that a configuration asks for."""

from __future__ import annotations

from pathlib import Path

from change.engine import EngineError
from collectors.history import History
from collectors.host import HostCollector
from collectors.npu_exporter import NpuExporterCollector
from collectors.npu_smi.collector import NpuSmiCollector
from collectors.npu_smi.details_collector import NpuSmiDetailsCollector
from collectors.npu_smi.program import NpuSmi
from collectors.npu_smi.watch_collector import NpuSmiWatchCollector
from collectors.runner import Runner
from collectors.sample import Collector, CollectorError
from collectors.vllm import VllmCollector
from daemon import credentials
from daemon.config import Config, NpuSmiSource
from daemon.engine.hot import HotEngine
from daemon.errors import ConfigError
from daemon.modes import Modes
from daemon.paths import engine_pid
from daemon.quiet_hours import QuietHours


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


def collectors(config: Config) -> list[Collector]:
    """The sources of samples, in the order in which they are shown."""
    engine, collect = config.engine, config.collect
    try:
        found: list[Collector] = [
            VllmCollector(
                engine.url,
                root_path=engine.root_path,
                api_key=credentials.engine_api_key(config),
                ca_file=engine.tls.ca_file,
                verify=engine.tls.verify,
                interval_seconds=collect.vllm.interval_seconds,
                timeout_seconds=engine.timeout_seconds,
            )
        ]
        if config.reads_npu_smi:
            found += _npu_smi(collect.npu_smi)
        if collect.npu_exporter.url is not None:
            found.append(
                NpuExporterCollector(
                    collect.npu_exporter.url, interval_seconds=collect.npu_exporter.interval_seconds
                )
            )
    except (ValueError, CollectorError) as error:
        raise ConfigError(str(error)) from error
    if collect.host.enabled:
        interval = collect.host.interval_seconds
        found.append(HostCollector((Path("/"),), engine_pid=engine_pid, interval_seconds=interval))
    return found


def _npu_smi(settings: NpuSmiSource) -> list[Collector]:
    """The sources that npu-smi is, fastest last; they share one program, which answers one at a time."""
    program = NpuSmi((settings.command,), timeout_seconds=settings.timeout_seconds)
    found: list[Collector] = [NpuSmiCollector(program, interval_seconds=settings.interval_seconds)]
    if settings.details:
        interval = settings.details_interval_seconds
        found.append(NpuSmiDetailsCollector(program, interval_seconds=interval))
    if settings.watch:
        found.append(NpuSmiWatchCollector(program, interval_seconds=settings.watch_interval_seconds))
    return found


def runner(config: Config, history: History) -> Runner:
    """What reads the sources into the history."""
    # The npu-smi sources end and kill their own children at their time-outs, after a wait for each other; the
    # runner's is only a second net.
    limit = 3 * config.collect.npu_smi.timeout_seconds + 20.0
    found = collectors(config)
    timeouts = {one.name: limit for one in found if one.name.startswith("npu_smi")}
    return Runner(found, history, timeouts=timeouts)


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
