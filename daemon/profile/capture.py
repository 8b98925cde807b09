"""One recording from start to end, bounded in time and in disk, and ended in any case."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from change.profiler import Capture, Profiler, ProfilerAbsent, ProfilerError
from daemon.profile.folders import forget_old, free_bytes, new_folder, size_of

LOOK_SECONDS = 0.5
"""How often the disk is looked at while something records."""
START_SECONDS = 60.0
INTERRUPTED_SECONDS = 5.0
"""What may be taken to stop where nobody waits for the results any more: an engine that hangs never answers."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a recording may take.

    `seconds` it records, `finish_seconds` it may take to write its results down, `quota_bytes` of disk, and `keep`
    recordings that stay.
    """

    seconds: float = 10.0
    finish_seconds: float = 600.0
    quota_bytes: int = 2 * 1024**3
    keep: int = 5


async def record(
    profiler: Profiler, captures: Path, bounds: Bounds, clock: Callable[[], float] = time.time
) -> Capture:
    """Record once; raises `ProfilerAbsent`, `ProfilerError`.

    A recording that outgrows its quota is ended early and its results are removed; so are those of one that failed or
    was interrupted. What lies in a folder of the engine's own stays there, and the error names it.
    """
    folder = new_folder(captures, profiler.way, clock())
    try:
        _need_space(profiler.place(folder), bounds)
        capture = await _recorded(profiler, folder, bounds)
    except BaseException as error:
        left = profiler.discard()
        if left and isinstance(error, ProfilerError):
            names = ", ".join(map(str, left))
            raise type(error)(f"{error}; new since the start and left where it is: {names}") from error
        raise
    finally:
        _remove_empty(folder)  # where the engine writes elsewhere, or nothing came
    forget_old(captures, bounds.keep)
    return capture


async def first_way(
    profilers: tuple[Profiler, ...],
    captures: Path,
    bounds: Bounds,
    clock: Callable[[], float] = time.time,
) -> Capture:
    """Record in the first of these ways that exists here; raises `ProfilerError` with every reason if none does."""
    absent: list[str] = []
    for profiler in profilers:
        try:
            return await record(profiler, captures, bounds, clock)
        except ProfilerAbsent as reason:
            absent.append(f"{profiler.way}: {reason}")
    raise ProfilerError("nothing can record here:\n" + "\n".join(absent))


async def _recorded(profiler: Profiler, folder: Path, bounds: Bounds) -> Capture:
    lasted, within = 0.0, True
    try:
        try:
            async with asyncio.timeout(START_SECONDS):
                await profiler.start(folder, bounds.seconds)
        except TimeoutError:
            raise ProfilerError(f"{profiler.way} did not start within {START_SECONDS:g} s") from None
        began = time.monotonic()
        within = await _until(began + bounds.seconds, profiler, bounds.quota_bytes)
        lasted = time.monotonic() - began
    except asyncio.CancelledError:
        bounds = replace(bounds, finish_seconds=min(bounds.finish_seconds, INTERRUPTED_SECONDS))
        raise
    finally:
        # Also when interrupted: an engine left profiling is slow for everybody. One that is over its quota already
        # must still be told to stop.
        limit = bounds.quota_bytes * (1 if within else 2)
        within = await _stopped(profiler, bounds, limit) and within
    sizes = {path: size_of(path) for path in profiler.sizes()}
    total = sum(sizes.values())
    if not within or total > bounds.quota_bytes:
        raise ProfilerError(
            f"the recording took {total / 2**20:.0f} MiB, over {bounds.quota_bytes / 2**20:.0f} (capture.quota_mib): "
            f"it was ended after {lasted:.1f} s and given up; record for a shorter time"
        )
    if not total:
        raise ProfilerError(
            f"{profiler.way} recorded nothing: did the engine do any work in these {lasted:.0f} s?"
        )
    largest_first = tuple(sorted(sizes, key=lambda path: -sizes[path]))
    return Capture(profiler.way, largest_first, lasted, total)


async def _until(end: float, profiler: Profiler, quota: int) -> bool:
    """Wait until `end`; False at once when the results outgrow the quota."""
    while (left := end - time.monotonic()) > 0:
        await asyncio.sleep(min(left, LOOK_SECONDS))
        if sum(profiler.sizes().values()) > quota:
            return False
    return True


async def _stopped(profiler: Profiler, bounds: Bounds, limit: int) -> bool:
    """End the recording; False, and given up, when its results outgrow `limit` while they are written down."""
    stopping = asyncio.create_task(profiler.stop())
    try:
        async with asyncio.timeout(bounds.finish_seconds):
            while not stopping.done():
                await asyncio.wait({stopping}, timeout=LOOK_SECONDS)
                if sum(profiler.sizes().values()) > limit:
                    return False
            await stopping
            return True
    except TimeoutError:
        raise ProfilerError(
            f"{profiler.way} did not write its results down within {bounds.finish_seconds:g} s "
            "(capture.finish_seconds); look whether it still records"
        ) from None
    finally:
        stopping.cancel()
        await asyncio.gather(stopping, return_exceptions=True)


def _need_space(place: Path, bounds: Bounds) -> None:
    free = free_bytes(place)
    if free < bounds.quota_bytes:
        raise ProfilerError(
            f"{place} has {free / 2**20:.0f} MiB free, a recording may take {bounds.quota_bytes / 2**20:.0f}: "
            "free some space, or lower capture.quota_mib"
        )


def _remove_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        return  # it holds the results
