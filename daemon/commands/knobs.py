"""`trimtab knobs`: the catalogue as it applies to an engine."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from change.engine import EngineError, EngineState
from change.host import HostError
from change.installed.engine import InstalledEngine
from change.installed.source import SourceUnreadable
from change.server import Settings
from collectors.history import History
from daemon import assembly, credentials
from daemon.commands.options import ConfigOption, JsonOption, configured
from daemon.commands.output import print_json, print_table, remark
from daemon.config import Config
from daemon.engine.installed import installed_at
from daemon.engine_probe import EngineProbe
from daemon.errors import USAGE, UserError
from daemon.host.hand import HostHand
from daemon.knob_rows import host_rows, knob_rows

SEARCH = {"free": "yes", "by_name": "by name", "never": "no"}


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the configured engine says of itself, and why it says no more."""

    state: EngineState | None
    version: str | None
    settings: Settings
    why: str | None
    host: dict[str, str]


def knobs(
    engine: Annotated[
        str | None,
        typer.Option(
            "--engine", metavar="E", help="vllm, vllm-ascend, sglang or mindie; else ask the engine."
        ),
    ] = None,
    version: Annotated[str | None, typer.Option("--version", metavar="V", help="Engine version.")] = None,
    installed: Annotated[
        Path | None,
        typer.Option(
            "--installed",
            metavar="PATH",
            help="The engine's Python, or its folder of packages: its source is read, and flags it has not are named.",
        ),
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the knobs: lane, range, flag, read-back, state; of the configured engine, or of any engine and version."""
    try:
        there = None if installed is None else _installed(installed, engine)
        if there is not None or engine is not None or version is not None:
            rows = _named(engine, version, there)
        else:
            rows = _asked(configured(config))
    except (ValueError, SourceUnreadable) as error:
        raise UserError(str(error), USAGE) from error
    if as_json:
        print_json(rows)
        return
    columns = ("knob", "lane", "value", "range", "unit", "flag", "tried", "read back", "state")
    print_table(columns, [_cells(row) for row in rows], "no knobs are known for this engine")


def _installed(path: Path, engine: str | None) -> InstalledEngine:
    try:
        return installed_at(path, "sglang" if engine == "sglang" else "vllm")
    except FileNotFoundError as error:
        raise UserError(str(error), USAGE) from error


def _named(
    engine: str | None, version: str | None, installed: InstalledEngine | None
) -> list[dict[str, Any]]:
    if installed is None:
        return knob_rows(engine or "vllm", version, None, {}, {}) + host_rows(None, None)
    ascend = installed.ascend_version is not None and engine is None
    name = engine or ("vllm-ascend" if ascend else installed.engine)
    rows = knob_rows(name, version or installed.version, None, {}, {}, installed=installed)
    return rows + host_rows(None, None)


def _asked(settings: Config) -> list[dict[str, Any]]:
    seen = asyncio.run(_look(settings))
    if seen.why is not None:
        remark(f"the engine's own values are not known: {seen.why}")
    state, of_the_host = seen.state, host_rows(seen.host, settings.host.knobs)
    if state is None:
        kind = settings.engine.kind_or_vllm
        return knob_rows(kind, seen.version, None, {}, {}, settings=seen.settings) + of_the_host
    rows = knob_rows(
        state.engine,
        state.engine_version,
        state.values,
        state.floors,
        state.ceilings,
        settings=seen.settings,
    )
    return rows + of_the_host


async def _look(settings: Config) -> _Seen:
    reader = assembly.effective_reader(settings)
    kind = settings.engine.kind_or_vllm
    host = await _host(assembly.host_lane_hand(settings, History()))
    async with assembly.hot_engine(settings) as control:
        try:
            state = await control.state()
        except EngineError as error:
            why = str(error)
        else:
            return _Seen(state, None, await reader.read(kind, state=state, log=()), None, host)
    probe = EngineProbe(settings, credentials.engine_api_key(settings))
    try:
        found = await probe.look()
        told = await reader.read(kind, state=None, log=()) if found.reachable else {}
        return _Seen(None, found.version, told, why, host)
    finally:
        await probe.close()


async def _host(hand: HostHand) -> dict[str, str]:
    """What the host's knobs are now, as far as they can be read."""
    found = {}
    for name in hand.knobs:
        with contextlib.suppress(HostError):
            if (value := (await hand.look(name)).value) is not None:
                found[name] = value
    return found


def _cells(row: dict[str, Any]) -> tuple[Any, ...]:
    state = row["state"]
    if row["successors"]:
        state += "; since then " + ", ".join(text.partition(":")[0] for text in row["successors"])
    return (
        row["name"],
        row["lane"],
        row["value"],
        _range(row),
        row["unit"],
        row["flag"],
        SEARCH[row["search"]] + (", accuracy gate" if row["accuracy_gate"] else ""),
        row["read_back"][0] if row["read_back"] else None,
        state,
    )


def _range(row: dict[str, Any]) -> str | None:
    if row["choices"]:
        return ", ".join(row["choices"])
    low = row["floor"] if row["floor"] is not None else row["low"]
    high = row["ceiling"] if row["ceiling"] is not None else row["high"]
    return None if low is None and high is None else f"{low:g} to {high:g}"
