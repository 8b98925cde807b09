"""`trimtab capture`: record what the engine does for some seconds."""

from __future__ import annotations

import asyncio
import signal
from typing import Annotated

import typer

from change.profiler import Capture
from daemon.commands.options import ConfigOption, JsonOption, configured
from daemon.commands.output import print_json, remark
from daemon.config import Config
from daemon.errors import USAGE, UserError
from daemon.profile.capture import Bounds
from daemon.profile.taking import WAYS, Way, bounds_of, take


def capture(
    way: Annotated[
        str | None, typer.Option("--way", metavar="WAY", help=f"{', '.join(WAYS)}; else the first there is.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option("--seconds", metavar="S", min=1, max=300, help="How long to record.")
    ] = None,
    pid: Annotated[
        list[int] | None, typer.Option("--pid", metavar="N", min=1, help="Engine process for msprof-dynamic.")
    ] = None,
    devices: Annotated[
        str | None, typer.Option("--devices", metavar="0,1", help="NPUs for msprof-system.")
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Record a profile of the running engine, which is slower meanwhile; no trial runs at the same time."""
    settings = configured(config)
    wanted = _ways(way)
    numbers = None if devices is None else _numbers(devices)
    try:
        taken = asyncio.run(_take(settings, wanted, bounds_of(settings, seconds), tuple(pid or ()), numbers))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None  # SIGTERM and SIGHUP are told as Ctrl-C is
    if as_json:
        print_json(
            {
                "way": taken.way,
                "folders": [str(path) for path in taken.folders],
                "seconds": taken.seconds,
                "size_bytes": taken.size_bytes,
                "notes": list(taken.notes),
            }
        )
    else:
        for path in taken.folders:
            print(path)
    for note in taken.notes:
        remark(note)
    remark(f"{taken.way} recorded {taken.seconds:.1f} s, {taken.size_bytes / 2**20:.1f} MiB")


async def _take(
    settings: Config,
    ways: tuple[Way, ...],
    bounds: Bounds,
    pids: tuple[int, ...],
    devices: tuple[int, ...] | None,
) -> Capture:
    _end_as_interrupted()
    return await take(settings, bounds, ways, pids, devices)


def _end_as_interrupted() -> None:
    """Let SIGTERM and SIGHUP cancel the recording as Ctrl-C does, so that no profiler is left running."""
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None  # a coroutine runs in a task
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
            loop.add_signal_handler(number, task.cancel)


def _ways(way: str | None) -> tuple[Way, ...]:
    if way is None:
        return WAYS
    found = tuple(one for one in WAYS if one == way)
    if not found:
        raise UserError(f"--way {way}: expected {', '.join(WAYS)}", USAGE)
    return found


def _numbers(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise UserError(f"--devices {text}: expected numbers, as in 0,1", USAGE)
    return tuple(dict.fromkeys(int(part) for part in parts))
