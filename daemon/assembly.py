"""Build the parts that a configuration asks for."""

from __future__ import annotations

from pathlib import Path

from change.engine import EngineError
from collectors.history import History
from collectors.host import HostCollector
from collectors.logs.find import Pattern
from collectors.logs.logs import LogsCollector, ascend_patterns
from collectors.npu_exporter import NpuExporterCollector
from collectors.npu_smi import NpuSmiCollector
from collectors.runner import Runner
from collectors.sample import Collector, CollectorError
from collectors.vllm import VllmCollector
from daemon import credentials
from daemon.config import Config
from daemon.engine.hot import HotEngine
from daemon.errors import ConfigError
from daemon.modes import Modes
from daemon.paths import ascend_log_dir, engine_pid, state_dir
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


def collectors(config: Config, *, lasting: bool = True) -> list[Collector]:
    """The sources of samples, in the order in which they are shown.

    With `lasting` false, for a single look, no source keeps where it left off.
    """
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
    if collect.host.enabled:
        interval = collect.host.interval_seconds
        found.append(HostCollector((Path("/"),), engine_pid=engine_pid, interval_seconds=interval))
    if collect.logs.enabled:
        found.append(_logs(config, lasting))
    return found


def _logs(config: Config, lasting: bool) -> LogsCollector:
    logs = config.collect.logs
    kmsg = config.deployment != "sidecar" if logs.kmsg is None else logs.kmsg
    return LogsCollector(
        [
            *ascend_patterns(logs.ascend_dir or ascend_log_dir()),
            *(Pattern("engine", name) for name in logs.engine),
        ],
        positions_file=state_dir() / "log-positions.json",
        remembers=lasting,
        kmsg=Path("/dev/kmsg") if kmsg and not logs.journald else None,
        journal=("journalctl",) if logs.journald else None,
        interval_seconds=logs.interval_seconds,
    )


def runner(config: Config, history: History, *, lasting: bool = True) -> Runner:
    """What reads the sources into the history; with `lasting` false no source keeps where it left off."""
    # npu-smi ends and kills its own child at its time-out; the runner's is only a second net.
    return Runner(
        collectors(config, lasting=lasting),
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
