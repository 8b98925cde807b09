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
from change.server import Setting
from collectors.history import History
from daemon import assembly
from daemon.client import DaemonClient, running
from daemon.cold_assembly import cold_lane
from daemon.commands import host as host_commands
from daemon.commands.options import ConfigOption, JsonOption, configured
from daemon.commands.output import print_json, remark, text
from daemon.config import Config
from daemon.errors import BAD, USAGE, UserError
from daemon.notices import Notices
from daemon.orders import STOPPED, Orders
from rules.yaml_reading import YamlMistake, parse
from store import open_store

ACTOR = "cli"
LARGEST_FILE_BYTES = 64 * 1024


def apply(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="YAML or JSON: knob names and values; - reads stdin.")
    ],
    restart: Annotated[
        bool,
        typer.Option("--restart", help="Restart the engine for what needs it; its users wait meanwhile."),
    ] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Apply knob values by hand, for good; journaled, and taken back if the engine does not hold them."""
    values = _values(file, restart)
    settings = configured(config)
    daemon = running(settings)
    if daemon is not None:
        result = daemon.post("apply", {"values": values, "restart": restart}, patient=restart)
    else:
        result = _directly(settings, lambda orders, now: orders.apply(values, ACTOR, now, restart=restart))
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
        # A restart among the changes takes its time.
        result = daemon.post("rollback", {"n": number}, patient=True)
    else:
        result = _directly(settings, lambda orders, now: orders.rollback(number, ACTOR, now))
    _show(result, as_json)


def detach(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Put the launch values back and forget what was promoted; a running daemon stays paused."""
    settings = configured(config)
    daemon = running(settings)
    if daemon is not None:
        result = _awaited(daemon, "detach")
    else:
        host = host_commands.leave(settings)
        result = _directly(settings, lambda orders, now: orders.detach(ACTOR, now)) | {"host": host}
        _say_alone(settings)
    _show(result, as_json)


def pause(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Stop tuning in any mode; a running trial goes back to the incumbent at once."""
    settings = configured(config)
    daemon = running(settings)
    if daemon is not None:
        result = _awaited(daemon, "pause")
    else:
        # No daemon, no trial: the next one starts paused.
        note = assembly.modes(settings).pause()
        if note is not None:
            raise UserError(note, BAD)
        result = {"paused": True, "note": None}
        _say_alone(settings)
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
        _say_alone(settings)
    _show_pause(result, as_json)


def _awaited(daemon: DaemonClient, order: str) -> dict[str, Any]:
    """Give an order that ends a campaign: one with restarts comes back with a restart, as long as the engine loads."""
    remark(f"daemon (pid {daemon.pid}) is asked to {order}; a restart of the engine on the way is waited for")
    result: dict[str, Any] = daemon.post(order, {}, patient=True)
    return result


def _say_alone(settings: Config) -> None:
    """A daemon of another run folder goes on as it was, and whoever gave the order must not think otherwise."""
    remark(f"no daemon was found in {settings.run_dir} for {settings.engine.url}")


def _directly(
    settings: Config, order: Callable[[Orders, float], Awaitable[dict[str, Any]]]
) -> dict[str, Any]:
    async def carry_out() -> dict[str, Any]:
        store = open_store(settings.store_url)
        try:
            async with assembly.hot_engine(settings) as control:
                # Nobody has read a source, so that nothing is known of cards or latencies beforehand.
                journal, history = Journal(store, settings.engine.url), History()
                host = assembly.host_lane(settings, control, journal, history)
                cold = cold_lane(
                    settings, control, journal, history, assembly.modes(settings), Notices(time.time)
                )
                try:
                    if cold is not None:
                        await cold.tick(time.time())
                    orders = Orders(control, journal, assembly.lock_dir(settings), cold=cold, host=host)
                    return await order(orders, time.time())
                finally:
                    if cold is not None:
                        await cold.finish()
        finally:
            store.close()

    try:
        return asyncio.run(carry_out())
    except ChangeRefused as error:
        raise UserError(str(error), BAD) from error


def _values(file: str, restart: bool) -> dict[str, Setting]:
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
    found: dict[str, Setting] = {}
    for name, value in values.items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        # What the running engine takes is a number; a start-up setting may be a text or a switch too.
        if not number and not (restart and isinstance(value, bool | str)):
            raise UserError(
                f"{file}:{document.line((name,)) or 1}: {name}: expected a number, not {value!r}", USAGE
            )
        found[str(name)] = value
    return found


def _show(result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(result)
    elif result["outcome"] != STOPPED:
        print(f"change {result['entry']} is {result['outcome']}: {text(result['requested'])}")
        if result.get("effective") is not None:
            print(f"in effect: {text(result['effective'])}")
    for step in result.get("rollbacks") or ():
        remark(f"{step['lane']} change {step['entry']}: {step['outcome']}")
    if result.get("down_seconds") is not None and not as_json:
        own = f", of which {result['own_seconds']:.1f} s are Trimtab's own" if "own_seconds" in result else ""
        print(f"users waited {result['down_seconds']:.1f} s{own}")
    if result["outcome"] != "done":
        # A restart's reason says itself what serves now, if anything does.
        spoken = result.get("lane") == "cold" or result["outcome"] == STOPPED
        what = "" if spoken else "the engine was put back: "
        remark(f"{what}{result['reason']}")
        raise typer.Exit(BAD)


def _show_pause(result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(result)
    else:
        print("paused" if result["paused"] else "not paused")
    if result.get("note"):
        remark(str(result["note"]))
