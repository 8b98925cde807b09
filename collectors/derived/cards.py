"""Which cards work together, and what each of them read lately."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from collectors.history import History
from collectors.sample import Labels

Floats = NDArray[np.float64]

PROCESSES = "npu_process_memory_bytes"


def groups(history: History, name: str) -> Iterator[list[Labels]]:
    """The cards that have a metric, by model, two or more; only those that hold a process where any are seen.

    A tensor-parallel engine loads its cards alike, so cards in use are compared with each other. Two engines
    on cards of one model cannot be told apart by the processes alone and stand in one group.
    """
    in_use = {place(own) for own in history.series(PROCESSES)}
    by_model: dict[str, list[Labels]] = {}
    for own in history.series(name):
        if not in_use or place(own) in in_use:
            by_model.setdefault(dict(own).get("name", ""), []).append(own)
    yield from (cards for cards in by_model.values() if len(cards) >= 2)


def place(own: Labels) -> tuple[str | None, str | None]:
    """Which card it is; sources differ in how they spell its model."""
    pairs = dict(own)
    return pairs.get("npu"), pairs.get("chip")


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
