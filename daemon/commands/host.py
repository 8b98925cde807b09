"""`trimtab host`: where the engine's threads and memory are, what could be changed, the change and its way back."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar

import typer

from change.host import HostChange, HostError
from change.host_knobs import HOST_KNOBS, parse_change
from change.journal import Journal
from change.steps import ChangeRefused
from collectors.history import History
from collectors.host.files import SystemFiles
from daemon import assembly
from daemon.client import running
from daemon.commands.options import ConfigOption, JsonOption, configured
from daemon.commands.output import print_json, print_table, remark, text
from daemon.config import Config
from daemon.errors import BAD, USAGE, UserError
from daemon.host.view import HostView
from daemon.host_lane import HostLane
from store import open_store

ACTOR = "cli"
ORDER_SECONDS = 600.0
"""Longest wait for the daemon: moving tens of gigabytes takes its time."""

ChangesArgument = Annotated[
    list[str], typer.Argument(metavar="KNOB=VALUE...", help="As in placement=split:6 memory=node:6.")
]

Result = TypeVar("Result")

app = typer.Typer(help="Place the engine's threads and memory on this host; set what the whole node shares.")


@app.command()
def show(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Show every knob of the host lane as it stands, with the values worth a trial."""
    found = asyncio.run(_view(configured(config), lambda view: view.show()))
    if as_json:
        print_json(found)
        return
    print_table(
        ("knob", "scope", "value", "worth a trial", "remark"),
        [
            (
                row["name"],
                row["scope"],
                row["value"],
                " ".join(row["trials"]),
                row["reason"] or row["refusal"] or "",
            )
            for row in found["knobs"]
        ],
        "there is no host lane here",
    )
    for row in found["npu_conf"] or ():
        print(f"/etc/npu.conf {row['key']} = {row['value']}: {row['verdict']}: {row['text']}")
    print()
    for hint in found["hints"]:
        print(f"{hint['name']} ({hint['where']}): {hint['text']}")


@app.command()
def plan(
    changes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KNOB=VALUE...]", help="Without any: what is worth a trial first."),
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what changes would do, why, and what takes them back; nothing is changed."""
    asked = _changes(changes or [])
    rows = asyncio.run(_view(configured(config), lambda view: view.plan(asked)))
    if as_json:
        print_json(rows)
    else:
        _print_plan(rows)


@app.command()
def apply(
    changes: ChangesArgument,
    yes: Annotated[bool, typer.Option("--yes", help="Do it without asking.")] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Change knobs by hand, for good: planned first, journaled, and taken back if one does not read back as asked."""
    asked = _changes(changes)
    settings = configured(config)
    if not (yes or settings.mode == "act"):
        _confirm(settings, asked)
    daemon = running(settings)
    if daemon is not None:
        order = {"changes": {one.knob: one.value for one in asked}}
        result = daemon.post("host/apply", order, timeout_seconds=ORDER_SECONDS)
    else:
        result = _directly(settings, lambda lane, now: lane.apply(asked, ACTOR, now))
    _show(result, as_json)


@app.command()
def rollback(
    number: Annotated[int, typer.Argument(metavar="[N]", min=1, max=1000, help="How many changes.")] = 1,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take back the last N changes of the host lane: each thread, page and setting to where it was."""
    settings = configured(config)
    daemon = running(settings)
    if daemon is not None:
        result = daemon.post("host/rollback", {"n": number}, timeout_seconds=ORDER_SECONDS)
    else:
        result = _directly(settings, lambda lane, now: lane.rollback(number, ACTOR, now))
    _show(result, as_json)


def leave(settings: Config) -> dict[str, Any] | None:
    """Take everything of the host lane back with no daemon; None if nothing stands."""
    return _directly(settings, lambda lane, now: lane.detach(ACTOR, now))


def _changes(words: list[str]) -> list[HostChange]:
    try:
        return [parse_change(word) for word in words]
    except ValueError as error:
        raise UserError(str(error), USAGE) from error


def _confirm(settings: Config, asked: list[HostChange]) -> None:
    if not sys.stdin.isatty():
        raise UserError("see `trimtab host plan` for what it would do, then give --yes", USAGE)
    _print_plan(asyncio.run(_view(settings, lambda view: view.plan(asked))))
    typer.confirm("Do it?", abort=True)


async def _view(settings: Config, look: Callable[[HostView], Awaitable[Any]]) -> Any:
    history = History()
    await assembly.near_readings(settings, history)
    return await look(HostView(assembly.host_lane_hand(settings, history), SystemFiles()))


def _directly(settings: Config, order: Callable[[HostLane, float], Awaitable[Result]]) -> Result:
    async def carry_out() -> Result:
        store = open_store(settings.store_url)
        try:
            async with assembly.hot_engine(settings) as control:
                journal = Journal(store, settings.engine.url)
                lane = assembly.host_lane(settings, control, journal, History())
                # What a daemon that died left half-way is ended before anything is put on top of it.
                await lane.recover(time.time())
                return await order(lane, time.time())
        finally:
            store.close()

    try:
        return asyncio.run(carry_out())
    except (ChangeRefused, HostError) as error:
        raise UserError(str(error), BAD) from error


def _print_plan(rows: list[dict[str, Any]]) -> None:
    if not rows:
        print("nothing is worth a trial here: see `trimtab host show`")
    for row in rows:
        print(f"{row['knob']}: {text(row['from'])} -> {row['to']} ({row['scope']})")
        for line in row["does"]:
            print(f"  {line}")
        print(f"  why: {row['why']}")
        print(f"  undo: {row['undo']}")


def _show(result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(result)
    else:
        before = result["before"]
        words = ", ".join(f"{k}: {text(before.get(k))} -> {text(v)}" for k, v in result["requested"].items())
        print(f"change {result['entry']} is {result['outcome']}: {words}")
        wide = [knob for knob in result["requested"] if HOST_KNOBS[knob].scope == "node"]
        if wide and result["outcome"] == "done" and result["kind"] != "rollback":
            remark(
                f"{', '.join(wide)} is set until the host restarts: write it into the host's own start for good"
            )
    if result["outcome"] != "done":
        remark(f"everything was put back: {result['reason']}")
        raise typer.Exit(BAD)
