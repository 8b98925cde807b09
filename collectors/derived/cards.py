"""Which cards work together, and what each of them read lately."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from collectors.history import History
from collectors.sample import Labels

Floats = NDArray[np.float64]

PROCESSES = "npu_process_memory_bytes"


Place = tuple[str | None, str | None]
"""NPU and chip."""
Engines = tuple[frozenset[str], ...]
"""The NPU numbers of each engine's cards; empty: not said."""


def groups(history: History, name: str, engines: Engines = ()) -> Iterator[list[Labels]]:
    """The cards that have a metric and work together, of one model, two or more.

    A tensor-parallel engine loads its cards alike. Which cards are whose is what `engines` says; if it says
    nothing, all cards that hold a process (all, where no process is seen) are taken for one engine's.
    """
    in_use = by_place(history, PROCESSES)
    found: dict[tuple[int, str], list[Labels]] = {}
    for own in history.series(name):
        pairs = dict(own)
        engine = next((number for number, npus in enumerate(engines) if pairs.get("npu") in npus), None)
        if engine is not None or (not engines and (not in_use or place(own) in in_use)):
            found.setdefault((engine or 0, pairs.get("name", "")), []).append(own)
    yield from (cards for cards in found.values() if len(cards) >= 2)


def place(own: Labels) -> Place:
    """Which card it is; sources differ in how they spell its model."""
    pairs = dict(own)
    return pairs.get("npu"), pairs.get("chip")


def by_place(history: History, name: str) -> dict[Place, Labels]:
    """A live series of each card that has the metric, whichever source it is of."""
    return {place(own): own for own in history.series(name)}


def readings(history: History, name: str, own: Labels, now: float, window: float) -> tuple[Floats, Floats]:
    """Times and values of one series in the last `window` seconds."""
    times, values = history.column(name, own, now - window, now)
    return np.asarray(times), np.asarray(values)


def held(times: Floats, values: Floats, at: Floats, longest: float) -> Floats:
    """The last reading at each of the times `at`; not a number where it is more than `longest` seconds old."""
    if len(times) == 0:
        return np.full(len(at), np.nan)
    index = np.searchsorted(times, at, side="right") - 1
    found = values[np.maximum(index, 0)]
    known = (index >= 0) & (at - times[np.maximum(index, 0)] <= longest)
    return np.where(known, found, np.nan)
