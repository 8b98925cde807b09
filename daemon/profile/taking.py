"""A profile of the configured engine, taken in the first way that exists, with the engine to itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args

import httpx2
import psutil

from change.engine import EngineError
from change.lock import EngineLock
from change.profiler import Capture, Profiler
from collectors.npu_smi.program import NpuSmi
from collectors.sample import CollectorError
from daemon import assembly, credentials
from daemon.config import Config
from daemon.engine_probe import tls_verification
from daemon.engine_process import EngineProcess
from daemon.profile.capture import Bounds, first_way
from daemon.profile.engine_endpoints import EngineProfiler
from daemon.profile.msprof import DynamicMsprof, SystemMsprof, npu_holders

Way = Literal["engine", "msprof-dynamic", "msprof-system"]
WAYS: tuple[Way, ...] = get_args(Way)
"""In the order in which they are tried: from the least to the most that they hold up."""


def bounds_of(settings: Config, seconds: float | None = None) -> Bounds:
    """What a recording may take, as it is configured."""
    capture = settings.capture
    return Bounds(
        capture.seconds if seconds is None else seconds,
        capture.finish_seconds,
        capture.quota_mib * 1024**2,
        capture.keep,
    )


async def take(
    settings: Config,
    bounds: Bounds,
    ways: tuple[Way, ...] = WAYS,
    pids: tuple[int, ...] = (),
    asked: tuple[int, ...] | None = None,
) -> Capture:
    """Record in the first of these ways; `pids` are engine processes, `asked` devices, if not those that are found.

    Raises `ProfilerError`, or `LockError` while somebody else changes the engine.
    """
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


def _device_files(root: Path = Path("/")) -> list[int]:
    """The NPUs whose device files are here."""
    names = (path.name.removeprefix("davinci") for path in (root / "dev").glob("davinci[0-9]*"))
    return sorted(int(name) for name in names if name.isdecimal())
