"""Tokens generated per second in which the engine had requests running."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from collectors.history import History
from collectors.sample import Sample

WINDOW_SECONDS = 120.0
"""Evens out the steps of a batch, and still shows a change of the load within minutes."""
LEAST_BUSY_SECONDS = 10.0
"""Below this the readings, often a second apart, no longer tell how long the engine was busy."""

TOKENS = "trimtab_engine_generation_tokens_total"

Floats = NDArray[np.float64]


def busy_seconds(times: Floats, running: Floats) -> float:
    """Seconds with requests running, from readings of their number: an interval with one idle end counts half."""
    busy = running > 0.0
    return float(np.sum(np.diff(times) * (busy[1:].astype(float) + busy[:-1]) / 2.0))


def samples(history: History, now: float) -> Iterator[Sample]:
    """One sample of each engine that was busy for long enough."""
    start = now - WINDOW_SECONDS
    # By the tokens' series: a server that counts them for all of its ranks together is busy while any of them is.
    for own in history.every_series(TOKENS):
        read = np.array(history.range("trimtab_engine_requests_running", start, now, own)).reshape(-1, 2)
        times, running = read.T
        token_times, tokens = map(np.asarray, history.column(TOKENS, own, start, now))
        # Growth and time must be of the same stretch: only readings that gave both count.
        shared, at, token_at = np.intersect1d(times, token_times, return_indices=True)
        if len(shared) < 2:
            continue
        busy = busy_seconds(shared, running[at])
        if busy >= LEAST_BUSY_SECONDS:
            grown = tokens[token_at][-1] - tokens[token_at][0]
            yield Sample("trimtab_engine_tokens_per_busy_second", float(grown) / busy, now, own)
