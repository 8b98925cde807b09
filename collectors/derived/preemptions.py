"""How often requests are thrown out of the batch to free KV cache."""

from __future__ import annotations

from collections.abc import Iterator

from collectors.history import History
from collectors.sample import Sample

WINDOW_SECONDS = 120.0
"""Preemptions come in bursts when the cache is full; two minutes hold a burst whole."""


def samples(history: History, now: float) -> Iterator[Sample]:
    """One sample of each engine."""
    for own in history.every_series("trimtab_engine_preemptions_total"):
        rate = history.rate("trimtab_engine_preemptions_total", now, WINDOW_SECONDS, own)
        if rate is not None:
            yield Sample("trimtab_engine_preemptions_per_second", rate, now, own)
