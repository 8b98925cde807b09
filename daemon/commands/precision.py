"""`trimtab precision`: which of the precisions kept ready serves, and the switch between them."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Annotated, TypeVar

import typer

from change.engine import EngineError
from change.journal import Journal
from change.lock import EngineLock
from change.server import ServerError
from change.steps import ChangeRefused
from daemon import assembly
from daemon.commands.options import ConfigOption, JsonOption, configured
from daemon.commands.output import print_json, remark, text
from daemon.config import Config
from daemon.errors import BAD, USAGE, UserError
from daemon.orders import outcome
from daemon.precision import BALANCER, PrecisionSwitch
from store import open_store
from store.models import JournalEntry

T = TypeVar("T")
ACTOR = "cli"
WHAT = "a switch of the precision"
app = typer.Typer(
    no_args_is_help=True, help="Precisions kept ready on replicas: which serves, and the switch."
)


@app.command()
def show(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Show the traffic weights in force and the precision they are."""
    found = _with(configured(config), lambda switch: switch.show())
    if as_json:
        print_json({"precision": found.name, "weights": dict(found.weights)})
    else:
        print(f"{found.name or 'no precision of a name'}: {text(found.weights)}")


@app.command()
def switch(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A precision of precision.kept.")],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give the traffic to a precision kept ready; journaled, and taken back if the balancer does not hold it."""
    _show(_with(configured(config), lambda one: one.switch(name, ACTOR, time.time())), as_json)


@app.command()
def back(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Put the weights back that were in force before the last switch."""
    _show(_with(configured(config), lambda one: one.back(ACTOR, time.time())), as_json)


def _with(config: Config, order: Callable[[PrecisionSwitch], Awaitable[T]]) -> T:
    if not config.precision.kept:
        raise UserError("no precision is kept ready: name them in precision.kept", USAGE)
    store = open_store(config.store_url)

    async def run() -> T:
        engine = await _engine_lock(config)
        return await order(
            PrecisionSwitch(config.precision, Journal(store, BALANCER), lambda: _locks(config, engine))
        )

    try:
        return asyncio.run(run())
    except (ServerError, ChangeRefused) as error:
        raise UserError(str(error), BAD) from error
    finally:
        store.close()


async def _engine_lock(config: Config) -> EngineLock | None:
    """The lock of the tuned engine: whoever measures it must not lose its users meanwhile. None where it is away."""
    try:
        async with assembly.hot_engine(config) as control:
            boot_id = (await control.state()).boot_id
    except EngineError:
        return None
    return EngineLock(assembly.lock_dir(config), boot_id, WHAT)


@contextlib.contextmanager
def _locks(config: Config, engine: EngineLock | None) -> Iterator[None]:
    with EngineLock(assembly.lock_dir(config), BALANCER, WHAT), engine or contextlib.nullcontext():
        yield


def _show(entry: JournalEntry, as_json: bool) -> None:
    result = outcome(entry)
    if as_json:
        print_json(result)
    else:
        print(f"change {result['entry']} is {result['outcome']}: {text(result['requested'])}")
    if result["outcome"] != "done":
        remark(str(result["reason"]))
        raise typer.Exit(BAD)
