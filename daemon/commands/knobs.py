"""`trimtab knobs`: the catalogue as it applies to an engine."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from change.engine import EngineError, EngineState
from daemon import assembly, credentials
from daemon.commands.options import ConfigOption, JsonOption, configured
from daemon.commands.output import print_json, print_table, remark
from daemon.config import Config
from daemon.engine_probe import EngineProbe
from daemon.errors import USAGE, UserError
from daemon.knob_rows import knob_rows


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the configured engine says of itself, and why it says no more."""

    state: EngineState | None
    version: str | None
    why: str | None


def knobs(
    engine: Annotated[
        str | None,
        typer.Option(
            "--engine", metavar="E", help="vllm, vllm-ascend, sglang or mindie; else ask the engine."
        ),
    ] = None,
    version: Annotated[str | None, typer.Option("--version", metavar="V", help="Engine version.")] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the knobs: lane, range, flag, state; of the configured engine, or of any engine and version."""
    try:
        rows = _asked(configured(config)) if engine is None and version is None else _named(engine, version)
    except ValueError as error:
        raise UserError(str(error), USAGE) from error
    if as_json:
        print_json(rows)
        return
    columns = ("knob", "lane", "value", "range", "unit", "flag", "state")
    print_table(
        columns,
        [(r["name"], r["lane"], r["value"], _range(r), r["unit"], r["flag"], r["state"]) for r in rows],
        "no knobs are known for this engine",
    )


def _named(engine: str | None, version: str | None) -> list[dict[str, Any]]:
    return knob_rows(engine or "vllm", version, None, {}, {})


def _asked(settings: Config) -> list[dict[str, Any]]:
    seen = asyncio.run(_look(settings))
    if seen.why is not None:
        remark(f"the engine's own values are not known: {seen.why}")
    state = seen.state
    if state is None:
        return knob_rows(settings.engine.kind_or_vllm, seen.version, None, {}, {})
    return knob_rows(state.engine, state.engine_version, state.values, state.floors, state.ceilings)


async def _look(settings: Config) -> _Seen:
    async with assembly.hot_engine(settings) as control:
        try:
            return _Seen(await control.state(), None, None)
        except EngineError as error:
            why = str(error)
    probe = EngineProbe(settings, credentials.engine_api_key(settings))
    try:
        return _Seen(None, (await probe.look()).version, why)
    finally:
        await probe.close()


def _range(row: dict[str, Any]) -> str | None:
    low = row["floor"] if row["floor"] is not None else row["low"]
    high = row["ceiling"] if row["ceiling"] is not None else row["high"]
    return None if low is None and high is None else f"{low:g} to {high:g}"
