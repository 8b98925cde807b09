"""The engines that are watched: the tuned one, those beside it, and the probe of a stall."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from collectors.engines.engine import EngineCollector, Server
from collectors.engines.launch import Launch, find_launch
from collectors.engines.stall import RUNNING, rank_stalls
from collectors.engines.stall_probe import StallProbe, Suspicion
from collectors.history import History
from collectors.sample import Collector, CollectorError
from daemon import credentials, paths
from daemon.config import Config
from daemon.errors import ConfigError
from daemon.sections.canary import CANARY
from daemon.sections.engine import WatchedEngineSection


def engine_sources(
    config: Config, engine_pid: Callable[[], int | None] = paths.engine_pid
) -> list[Collector]:
    """One source for each engine; the tuned one first, named after its kind where that is configured.

    `engine_pid` gives the tuned engine's main process where it can be seen; it may take its time.
    Raises `ConfigError` for a secret that cannot be read, ValueError for certificates that cannot be used.
    """
    engine = config.engine
    tuned = EngineCollector(
        engine.kind_or_vllm,
        Server(
            engine.url,
            root_path=engine.root_path,
            metrics_url=engine.metrics_url,
            api_key=credentials.engine_api_key(config),
            ca_file=engine.tls.ca_file,
            verify=engine.tls.verify,
            kind=engine.kind,
            role=None if engine.role == "auto" else engine.role,
        ),
        launch=partial(_launch, engine_pid),
        interval_seconds=config.collect.vllm.interval_seconds,
        timeout_seconds=engine.timeout_seconds,
    )
    beside = [_watched(config, watched) for watched in config.collect.engines]
    return [tuned, *beside, *_canary(config)]


def stall_probe(config: Config, history: History) -> StallProbe:
    """The probe of the tuned engine, which asks the history whether it looks stuck."""
    engine, probe = config.engine, config.collect.probe
    try:
        return StallProbe(
            engine.url + engine.root_path,
            partial(_suspicion, history, probe.after_seconds),
            api_key=credentials.engine_api_key(config),
            token=credentials.plugin_token(config),
            ca_file=engine.tls.ca_file,
            verify=engine.tls.verify,
            pause_seconds=probe.pause_seconds,
            timeout_seconds=probe.timeout_seconds,
        )
    except (ValueError, CollectorError) as error:
        raise ConfigError(str(error)) from error


def _watched(config: Config, engine: WatchedEngineSection) -> EngineCollector:
    return EngineCollector(
        f"engine:{engine.name}",
        Server(
            engine.url,
            root_path=engine.root_path,
            api_key=credentials.watched_api_key(engine),
            ca_file=engine.tls.ca_file,
            verify=engine.tls.verify,
            kind=engine.kind,
            role=None if engine.role == "auto" else engine.role,
            label=engine.name,
        ),
        interval_seconds=config.collect.vllm.interval_seconds,
        timeout_seconds=config.engine.timeout_seconds,
    )


def _canary(config: Config) -> list[Collector]:
    """The canary is watched as any engine beside the tuned one is."""
    canary = config.tune.canary
    if canary.url is None:
        return []
    own = config.model_copy(update={"engine": canary.as_engine(config.engine)})
    server = Server(
        canary.url,
        root_path=canary.root_path,
        api_key=credentials.engine_api_key(own),
        ca_file=canary.tls.ca_file,
        verify=canary.tls.verify,
        kind=config.engine.kind,
        role=None if config.engine.role == "auto" else config.engine.role,
        label=CANARY,
    )
    return [
        EngineCollector(
            f"engine:{CANARY}",
            server,
            interval_seconds=config.collect.vllm.interval_seconds,
            timeout_seconds=config.engine.timeout_seconds,
        )
    ]


def _launch(engine_pid: Callable[[], int | None]) -> Launch | None:
    pid = engine_pid()
    return None if pid is None else find_launch(pid)


def _suspicion(history: History, after_seconds: float, now: float) -> Suspicion | None:
    """A rank that looks stuck makes the engine look stuck."""
    if True not in rank_stalls(history, now, after_seconds).values():
        return None
    running = history.latest(RUNNING)
    return Suspicion(dict(running.labels).get("model") if running is not None else None)
