"""`trimtab capture`: record what the engine does for some seconds."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, get_args

import httpx2
import psutil
import typer

from change.engine import EngineError
from change.lock import EngineLock
from change.profiler import Capture, Profiler
from collectors.npu_smi.program import NpuSmi
from collectors.sample import CollectorError
from daemon import assembly, credentials
from daemon.commands.options import ConfigOption, JsonOption, configured
from daemon.commands.output import print_json, remark
from daemon.config import Config
from daemon.engine_probe import tls_verification
from daemon.engine_process import EngineProcess
from daemon.errors import USAGE, UserError
from daemon.profile.capture import Bounds, first_way
from daemon.profile.engine_endpoints import EngineProfiler
from daemon.profile.msprof import DynamicMsprof, SystemMsprof, npu_holders

Way = Literal["engine", "msprof-dynamic", "msprof-system"]
WAYS: tuple[Way, ...] = get_args(Way)
"""In the order in which they are tried: from the least to the most that they hold up."""


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
    bounds = Bounds(
        settings.capture.seconds if seconds is None else seconds,
        settings.capture.finish_seconds,
        settings.capture.quota_mib * 1024**2,
        settings.capture.keep,
    )
    try:
        taken = asyncio.run(_take(settings, wanted, bounds, tuple(pid or ()), numbers))
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
    asked: tuple[int, ...] | None,
) -> Capture:
    _end_as_interrupted()
    cards = await _cards(settings) if "msprof-system" in ways else {}
    devices, notes = _one_of_each_card(_device_files(), cards) if asked is None else (asked, ())
    key = credentials.engine_api_key(settings)
    async with (
        httpx2.AsyncClient(
            verify=tls_verification(settings),
            timeout=None,  # writing the results may take minutes; the recording has its own bounds
            trust_env=False,
            headers={"Authorization": f"Bearer {key}"} if key else {},
        ) as client,
        _alone_with_the_engine(settings),
    ):
        tool = settings.capture.msprof
        known: dict[Way, Profiler] = {
            "engine": EngineProfiler(
                client, settings.engine.url + settings.engine.root_path, settings.capture.engine_folder
            ),
            "msprof-dynamic": DynamicMsprof(tool, pids or _engine_workers(settings.engine.url)),
            "msprof-system": SystemMsprof(tool, devices, cards),
        }
        taken = await first_way(tuple(known[way] for way in ways), settings.captures, bounds)
    return replace(taken, notes=(*taken.notes, *notes)) if taken.way == "msprof-system" else taken


def _end_as_interrupted() -> None:
    """Let SIGTERM and SIGHUP cancel the recording as Ctrl-C does, so that no profiler is left running."""
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None  # a coroutine runs in a task
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
            loop.add_signal_handler(number, task.cancel)


async def _cards(settings: Config) -> Mapping[int, str]:
    """The card of each device whose physical id npu-smi's table tells (A3); none where it cannot be read."""
    if not settings.reads_npu_smi:
        return {}
    source = settings.collect.npu_smi
    try:
        answer = await NpuSmi((source.command,), timeout_seconds=source.timeout_seconds).table()
    except CollectorError:
        return {}  # most nodes have one device a card, and msprof refuses two dies in its own words
    return {
        int(chip.phy_id): chip.npu
        for chip in answer.said.chips
        if chip.phy_id is not None and chip.phy_id.isdecimal()
    }


def _one_of_each_card(
    devices: Sequence[int], cards: Mapping[int, str]
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The first device of each card, and what to say of those that are left out."""
    firsts: dict[int | str, int] = {}
    for device in devices:
        firsts.setdefault(cards.get(device, device), device)
    taken = tuple(firsts.values())
    left = ", ".join(str(device) for device in devices if device not in taken)
    note = f"one die of each card is recorded; left out: {left} (--devices chooses others)"
    return taken, (note,) if left else ()


@asynccontextmanager
async def _alone_with_the_engine(settings: Config) -> AsyncIterator[None]:
    """Hold the engine's lock, so that no trial is measured while it is slow; without a plugin there are no trials."""
    async with assembly.hot_engine(settings) as control:
        try:
            boot_id = (await control.state()).boot_id
        except EngineError:
            yield
            return
        lock = EngineLock(assembly.lock_dir(settings), boot_id, "a capture")
        lock.acquire()
        try:
            yield
        finally:
            lock.release()


def _engine_workers(url: str) -> tuple[int, ...]:
    """The engine's processes that hold an NPU; none where its process cannot be seen from here."""
    main = EngineProcess(url).pid()
    if main is None:
        return ()
    try:
        family = [main, *(child.pid for child in psutil.Process(main).children(recursive=True))]
    except psutil.Error:
        return ()
    return tuple(npu_holders(family))


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


def _device_files(root: Path = Path("/")) -> list[int]:
    """The NPUs whose device files are here."""
    names = (path.name.removeprefix("davinci") for path in (root / "dev").glob("davinci[0-9]*"))
    return sorted(int(name) for name in names if name.isdecimal())
