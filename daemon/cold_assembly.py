"""Build the cold lane that a configuration asks for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from change.engine import EngineControl
from change.journal import Journal
from change.lock import EngineLock
from change.restart.budget import Budget
from change.restart.memory import MemoryPlan
from change.restart.order import RestartOrder
from change.restart.parts import Judges, Parts
from change.server import EngineServer, LaunchCommand
from collectors.history import History
from collectors.logs.catalogue import catalogue as log_catalogue
from collectors.logs.line import bounded
from collectors.npu_smi.program import NpuSmi
from collectors.npu_smi.table import Table
from daemon import credentials, paths
from daemon.cold import Cold, ColdCatalogue
from daemon.cold_catalogue import EngineCatalogue
from daemon.config import Config
from daemon.engine.effective import EffectiveReader
from daemon.engine.ground import HostGround
from daemon.engine.model_memory import memory_plan
from daemon.engine.probe import EngineRestartProbe, Golden
from daemon.engine.servers import engine_server
from daemon.engine_probe import tls_verification
from daemon.modes import Modes
from daemon.notices import Notices
from daemon.sections.restart import RestartSection
from daemon.slo_watch import SloWatch
from daemon.wall_clock import WallClock


def cold_lane(
    config: Config,
    control: EngineControl,
    journal: Journal,
    history: History,
    modes: Modes,
    notices: Notices,
) -> Cold | None:
    """The cold lane over the hand of `engine.server`, None where nobody may restart the engine.

    Raises `ConfigError` for a hand, a secret or a certificate that cannot be used.
    """
    server = engine_server(config)
    if server is None:
        return None
    engine = config.engine
    key = credentials.engine_api_key(config)
    reader = EffectiveReader(
        engine.url + engine.root_path,
        metrics_url=engine.metrics_url,
        headers={"Authorization": f"Bearer {key}"} if key else {},
        tls=tls_verification(config),
        timeout_seconds=engine.timeout_seconds,
    )
    catalogue = EngineCatalogue(engine.kind_or_vllm, control, history, config.own_card, reader)
    return over(config, server, catalogue, control, journal, history, modes, notices)


def over(
    config: Config,
    server: EngineServer,
    catalogue: ColdCatalogue,
    control: EngineControl,
    journal: Journal,
    history: History,
    modes: Modes,
    notices: Notices,
) -> Cold:
    """The cold lane over any hand and catalogue, with the real ground, probe and clock."""
    engine, restart, clock = config.engine, config.engine.restart, WallClock()
    probe = EngineRestartProbe(
        engine.url + engine.root_path,
        token=credentials.plugin_token(config),
        api_key=credentials.engine_api_key(config),
        verify=tls_verification(config),
        health_seconds=engine.timeout_seconds,
        answer_seconds=restart.probe_seconds,
        metrics_url=engine.metrics_url,
        golden=[Golden(one.prompt, tuple(one.tokens)) for one in restart.golden],
        effective=catalogue.effective,
    )
    watch = SloWatch(history, config.slo.limits(), restart.watch_seconds, clock.now)
    budget = Budget(
        restart.per_day,
        restart.lost_minutes_per_day,
        lambda now: modes.stopped(now) or outside(restart, now),
    )

    def allowed(order: RestartOrder, now: float) -> str | None:
        return budget.refusal(journal, order, now)

    async def plan(command: LaunchCommand) -> MemoryPlan | None:
        return await asyncio.to_thread(memory_plan, command, catalogue.settings(command))

    parts = Parts(
        server,
        control,
        HostGround(
            engine.url, _disk(config), _table_reader(config), config.own_card, _store_folder(config.store_url)
        ),
        probe,
        clock,
        journal,
        settings=restart.settings(engine.kind_or_vllm, engine.server.grace_seconds),
        judges=Judges(
            plan=plan, allowed=allowed, classify=sign, watch=watch if config.slo.limits().limits else None
        ),
        lock=lambda boot_id: EngineLock(config.run_dir / "locks", boot_id, "a restart"),
    )
    return Cold(parts, catalogue, notices, before=watch.before, close=probe.close)


def sign(line: str) -> str | None:
    """The log signature of a line, as the log source names it."""
    found = log_catalogue().match(bounded(line))
    return None if found is None else found.id


def outside(restart: RestartSection, now: float) -> str | None:
    """Say why a time is outside the maintenance window; without one every time is inside."""
    if restart.open_at(now):
        return None
    return f"it is outside the maintenance window {', '.join(restart.window)} (engine.restart.window)"


def _disk(config: Config) -> Path:
    folder = config.run_dir
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder if folder.exists() else paths.state_dir()


def _store_folder(url: str) -> Path | None:
    """The folder of an SQLite file; None for a store in memory."""
    path = Path(url.partition(":///")[2].partition("?")[0].removeprefix("file:"))
    return path.parent if path.name and path.parent.is_dir() else None


def _table_reader(config: Config) -> Callable[[], Awaitable[Table]] | None:
    if not config.reads_npu_smi:
        return None
    source = config.collect.npu_smi
    program = NpuSmi((source.command,), timeout_seconds=source.timeout_seconds)

    async def read() -> Table:
        return (await program.table()).said

    return read
