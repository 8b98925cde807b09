"""`trimtab apply`, `rollback`, `pause`, `resume`, `detach`: what a person orders.

Where a daemon looks after the engine, it carries the order out; else this process does, under the same lock.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from change.apply import ChangeRefused
from change.journal import Journal
from daemon import assembly
from daemon.client import running
from daemon.commands import host as host_commands
from daemon.commands.options import ConfigOption, JsonOption, configured
from daemon.commands.output import print_json, remark, text
from daemon.config import Config
from daemon.errors import BAD, USAGE, UserError
from daemon.orders import Orders
from daemon.yaml_file import YamlMistake, parse
from store import open_store

ACTOR = "cli"
LARGEST_FILE_BYTES = 64 * 1024


def apply(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="YAML or JSON: knob names and values; - reads stdin.")
    ],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Apply knob values by hand, for good; journaled, and taken back if the engine does not hold them."""
    values = _values(file)
    settings = configured(config)
    daemon = running(settings)
    if daemon is not None:
        result = daemon.post("apply", {"values": values})
    else:
        result = _directly(settings, lambda orders, now: orders.apply(values, ACTOR, now))
    _show(result, as_json)


def rollback(
    number: Annotated[int, typer.Argument(metavar="[N]", min=1, max=1000, help="How many changes.")] = 1,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take back the last N changes that stand."""
    settings = configured(config)
    daemon = running(settings)
    if daemon is not None:
        result = daemon.post("rollback", {"n": number})
    else:
        result = _directly(settings, lambda orders, now: orders.rollback(number, ACTOR, now))
    _show(result, as_json)


def detach(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Put the launch values back and forget what was promoted; a running daemon stays paused."""
    settings = configured(config)
    daemon = running(settings)
    if daemon is not None:
        result = daemon.post("detach", {})
    else:
        host = host_commands.leave(settings)
        result = _directly(settings, lambda orders, now: orders.detach(ACTOR, now)) | {"host": host}
    _show(result, as_json)


def pause(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Stop tuning in any mode; a running trial goes back to the incumbent at once."""
    settings = configured(config)
    daemon = running(settings)
    if daemon is not None:
        result = daemon.post("pause", {})
    else:
        # No daemon, no trial: the next one starts paused.
        note = assembly.modes(settings).pause()
        if note is not None:
            raise UserError(note, BAD)
        result = {"paused": True, "note": None}
    _show_pause(result, as_json)


def resume(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Let tuning go on."""
    settings = configured(config)
    daemon = running(settings)
    if daemon is not None:
        result = daemon.post("resume", {})
    else:
        modes = assembly.modes(settings)
        result = {"note": modes.resume(), "paused": modes.paused}
    _show_pause(result, as_json)


def _directly(
    settings: Config, order: Callable[[Orders, float], Awaitable[dict[str, Any]]]
) -> dict[str, Any]:
    async def carry_out() -> dict[str, Any]:
        store = open_store(settings.store_url)
        try:
            async with assembly.hot_engine(settings) as control:
                journal = Journal(store, settings.engine.url)
                return await order(Orders(control, journal, assembly.lock_dir(settings)), time.time())
        finally:
            store.close()

    try:
        return asyncio.run(carry_out())
    except ChangeRefused as error:
        raise UserError(str(error), BAD) from error


def _values(file: str) -> dict[str, float]:
    try:
        raw = (
            sys.stdin.buffer.read(LARGEST_FILE_BYTES)
            if file == "-"
            else Path(file).read_bytes()[:LARGEST_FILE_BYTES]
        )
        document = parse(raw.decode())
    except OSError as error:
        raise UserError(f"{file}: cannot be read: {error.strerror}", USAGE) from error
    except UnicodeDecodeError as error:
        raise UserError(f"{file}: is no text", USAGE) from error
    except YamlMistake as error:
        raise UserError(f"{file}:{error.line or 1}: {error}", USAGE) from error
    values = document.values
    if not isinstance(values, dict) or not values:
        raise UserError(f"{file}: expected knob names and values, as in `batch_max_tokens: 2048`", USAGE)
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise UserError(
                f"{file}:{document.line((name,)) or 1}: {name}: expected a number, not {value!r}", USAGE
            )
    return {str(name): float(value) for name, value in values.items()}


def _show(result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(result)
    else:
        print(f"change {result['entry']} is {result['outcome']}: {text(result['requested'])}")
        if result.get("effective") is not None:
            print(f"in effect: {text(result['effective'])}")
    if result["outcome"] != "done":
        remark(f"the engine was put back: {result['reason']}")
        raise typer.Exit(BAD)


def _show_pause(result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(result)
    else:
        print("paused" if result["paused"] else "not paused")
    if result.get("note"):
        remark(str(result["note"]))
