"""Cards that do little while the others they work with work."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from collectors.derived.cards import Engines, Floats, groups, held, readings
from collectors.history import History
from collectors.sample import Sample

WINDOW_SECONDS = 300.0
STEP_SECONDS = 10.0
"""How finely readings are compared: npu-smi's table is read this often."""
LONGEST_HOLD_SECONDS = 30.0
"""An older reading says nothing of now."""
LITTLE_RATIO = 0.5
"""The guides' "cards under 50%"."""
WORKING_RATIO = 0.6
"""Well above it, so that cards around one half are not told apart by noise."""
LEAST_KNOWN_RATIO = 0.5
"""Of the window; less than that is not the window's story."""


def lagging(usage: Floats) -> list[float | None]:
    """Share of moments in which a card did little while most of the others worked.

    `usage` is cards by moments, 0 to 1, not a number where unknown. None for a card of which, together with
    another, too little is known.
    """
    known = ~np.isnan(usage)
    working = np.where(known, usage, 0.0) >= WORKING_RATIO
    little = known & (np.where(known, usage, 1.0) < LITTLE_RATIO)
    others = known.sum(axis=0) - 1  # as seen from a card that is known
    behind = little & (working.sum(axis=0) > others / 2.0)
    told = (known & (others >= 1)).sum(axis=1)
    enough = LEAST_KNOWN_RATIO * usage.shape[1]
    return [
        float(count / all_told) if all_told >= max(enough, 1) else None
        for count, all_told in zip(behind.sum(axis=1), told, strict=True)
    ]


def samples(history: History, now: float, engines: Engines = ()) -> Iterator[Sample]:
    """One sample of each card that has others to be compared with."""
    name = "npu_aicore_usage_ratio"
    moments = now - np.arange(WINDOW_SECONDS / STEP_SECONDS)[::-1] * STEP_SECONDS
    reach = WINDOW_SECONDS + LONGEST_HOLD_SECONDS
    for cards in groups(history, name, engines):
        usage = np.array(
            [held(*readings(history, name, own, now, reach), moments, LONGEST_HOLD_SECONDS) for own in cards]
        )
        for own, share in zip(cards, lagging(usage), strict=True):
            if share is not None:
                yield Sample("npu_lagging_ratio", share, now, own)
