"""Build the parts that a configuration asks for."""

from __future__ import annotations

from pathlib import Path

from change.engine import EngineError
from collectors.history import History
from collectors.npu_exporter import NpuExporterCollector
from collectors.npu_smi import NpuSmiCollector
from collectors.runner import Runner
from collectors.sample import Collector, CollectorError
from collectors.vllm import VllmCollector
from daemon import credentials
from daemon.config import Config
from daemon.engine.hot import HotEngine
from daemon.errors import ConfigError
from daemon.host_sources import host_collectors
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


def collectors(config: Config, history: History) -> list[Collector]:
    """The sources of samples, in the order in which they are shown; some ask `history` for what others read."""
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
            found.append(
                NpuSmiCollector(
                    (collect.npu_smi.command, "info"),
                    interval_seconds=collect.npu_smi.interval_seconds,
                    timeout_seconds=collect.npu_smi.timeout_seconds,
                )
            )
        if collect.npu_exporter.url is not None:
            found.append(
                NpuExporterCollector(
                    collect.npu_exporter.url, interval_seconds=collect.npu_exporter.interval_seconds
                )
            )
    except (ValueError, CollectorError) as error:
        raise ConfigError(str(error)) from error
    return found + host_collectors(collect, history, engine_pid)


def runner(config: Config, history: History) -> Runner:
    """What reads the sources into the history."""
    # npu-smi ends and kills its own child at its time-out; the runner's is only a second net.
    return Runner(
        collectors(config, history),
        history,
        timeouts={"npu_smi": config.collect.npu_smi.timeout_seconds + 5.0} if config.reads_npu_smi else None,
    )


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
