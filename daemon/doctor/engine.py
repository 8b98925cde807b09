"""The engine: whether it answers, and what its plugin says."""

from __future__ import annotations

import asyncio
from importlib.metadata import version

from change.engine import EngineError, EngineState, PluginAbsent
from collectors.sample import CollectorError
from daemon import credentials
from daemon.config import Config
from daemon.doctor.finding import Finding
from daemon.engine.hot import HotEngine
from daemon.engine_probe import EngineProbe, Probe
from daemon.engine_sources import engine_sources
from daemon.errors import ConfigError


async def engine(config: Config) -> list[Finding]:
    """The server, then the plugin inside it."""
    try:
        api_key = credentials.engine_api_key(config)
        probe = EngineProbe(config, api_key)
    except ConfigError as error:
        return [Finding("engine", "secrets", "bad", str(error), "mend the file named")]
    try:
        seen = await probe.look()
    finally:
        await probe.close()
    if not seen.reachable:
        return [
            Finding("engine", "HTTP", "bad", seen.error or "no answer", "start the engine, or set engine.url")
        ]
    model = seen.model or "unknown (set engine.api_key_file if the engine has a key)"
    rows = [
        Finding("engine", "HTTP", "ok", f"{probe.url}, version {seen.version or 'unknown'}, model {model}")
    ]
    return rows + await _plugin(config, api_key, seen)


async def watched(config: Config) -> list[Finding]:
    """Whether the engines that are watched beside the tuned one give their metrics."""
    rows: list[Finding] = []
    for source in engine_sources(config)[1:]:
        try:
            async with asyncio.timeout(config.engine.timeout_seconds):
                samples = await source.collect(0.0)
        except (CollectorError, TimeoutError) as error:
            reason = str(error) or "no answer in time"
            rows.append(
                Finding("engine", source.name, "bad", reason, "look at collect.engines and that engine's log")
            )
        else:
            rows.append(Finding("engine", source.name, "ok", f"{len(samples)} samples"))
    return rows


async def _plugin(config: Config, api_key: str | None, seen: Probe) -> list[Finding]:
    token_file = credentials.plugin_token_file(config)
    try:
        token = credentials.plugin_token(config)
    except ConfigError as error:
        return [Finding("plugin", "token", "bad", str(error), "give it the file the engine was started with")]
    rows: list[Finding] = []
    if token is None:
        rows.append(
            Finding(
                "plugin",
                "token",
                "unknown",
                f"none set and no {token_file}",
                "start the engine with TRIMTAB_TOKEN_FILE and name the same file as engine.token_file",
            )
        )
    elif token_file.exists() and token_file.stat().st_mode & 0o007:
        rows.append(
            Finding("plugin", "token", "warn", f"others may read {token_file}", f"chmod 600 {token_file}")
        )
    else:
        rows.append(Finding("plugin", "token", "ok", "set"))
    hot = HotEngine(
        config.engine.url,
        token=token,
        api_key=api_key,
        verify=config.engine.tls.ca_file or config.engine.tls.verify,
        root_path=config.engine.root_path,
        timeout=config.engine.timeout_seconds,
    )
    try:
        async with hot:
            state = await hot.state()
    except PluginAbsent as error:
        mend = "without the plugin there is no hot lane; metrics and reports work"
        return [*rows, Finding("plugin", "state", "warn", str(error), mend)]
    except EngineError as error:
        return [*rows, Finding("plugin", "state", "bad", str(error), "look at the engine's log")]
    return rows + plugin_findings(state, version("trimtab"))


def plugin_findings(state: EngineState, mine: str) -> list[Finding]:
    """What the plugin's own answer says about the hot lane."""
    rows = [
        Finding(
            "plugin",
            "state",
            "ok",
            f"epoch {state.epoch}, gate {state.gate}, {state.api_servers} API servers",
        )
    ]
    if _release(state.plugin) == _release(mine):
        rows.append(Finding("plugin", "version", "ok", state.plugin))
    else:
        rows.append(
            Finding(
                "plugin",
                "version",
                "bad",
                f"the plugin is {state.plugin}, Trimtab is {mine}",
                "install the same version of both and restart the engine",
            )
        )
    if state.scheduler_known:
        rows.append(Finding("plugin", "scheduler", "ok", state.scheduler))
    else:
        rows.append(
            Finding(
                "plugin",
                "scheduler",
                "warn",
                f"{state.scheduler} of {state.engine} {state.engine_version} is not a build Trimtab knows",
                "hot changes are refused on it; metrics and reports work",
            )
        )
    return rows


def _release(text: str) -> tuple[str, ...]:
    return tuple(text.split("+")[0].split(".")[:2])
