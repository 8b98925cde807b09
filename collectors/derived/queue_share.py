"""The share of a request's time that it spends waiting to be scheduled."""

from __future__ import annotations

from collections.abc import Iterator

from collectors.history import History
from collectors.sample import Distribution, Sample

WINDOW_SECONDS = 120.0
"""Long enough for the requests of a busy engine to end in it, short enough to see a queue build up."""
LEAST_REQUESTS = 5
"""Fewer requests are an anecdote: one long wait would be a share of its own."""


def queue_share(queued: Distribution, whole: Distribution) -> float | None:
    """Waiting time over whole time of the requests that ended in a window, 0 to 1; None if too few ended.

    Both are recorded when a request ends. An engine that records the wait earlier may show more waiting than
    time; that is a share of 1.
    """
    if whole.count < LEAST_REQUESTS or whole.sum <= 0.0:
        return None
    return min(max(queued.sum / whole.sum, 0.0), 1.0)


def samples(history: History, now: float) -> Iterator[Sample]:
    """One sample of each engine with enough requests."""
    for own in history.every_series("trimtab_engine_e2e_seconds"):
        whole = history.distribution("trimtab_engine_e2e_seconds", now, WINDOW_SECONDS, own)
        queued = history.distribution("trimtab_engine_queue_seconds", now, WINDOW_SECONDS, own)
        if whole is None or queued is None:
            continue
        share = queue_share(queued, whole)
        if share is not None:
            yield Sample("trimtab_engine_queue_share_ratio", share, now, own)
