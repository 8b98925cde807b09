"""The hand that the configuration names, made."""

from __future__ import annotations

from change.server import EngineServer
from daemon.config import Config
from daemon.engine.hook import HookServer
from daemon.engine.process import ProcessServer
from daemon.engine.systemd import SystemdServer
from daemon.errors import ConfigError


def engine_server(config: Config) -> EngineServer | None:
    """The engine's cold lane, None where nobody may restart it; raises `ConfigError` for one that cannot be used."""
    section = config.engine.server
    match section.hand:
        case "none":
            return None
        case "process":
            return ProcessServer(config.run_dir)
        case "systemd":
            assert section.systemd.unit is not None, "the section was checked"
            return SystemdServer(section.systemd.unit)
        case "hook":
            return HookServer(section.hook)
        case "docker" | "kubernetes":
            raise ConfigError(f"engine.server.hand: {section.hand} is not there yet")
