"""The share of prompt tokens that the prefix cache had."""

from __future__ import annotations

from collections.abc import Iterator

from collectors.history import History
from collectors.sample import Sample

WINDOW_SECONDS = 300.0
"""Prompts come in bunches of the same kind; five minutes see several of them."""


def samples(history: History, now: float) -> Iterator[Sample]:
    """One sample of each engine that looked anything up; an engine without a prefix cache gives none."""
    for own in history.every_series("trimtab_engine_prefix_cache_queried_tokens_total"):
        queried = history.rate("trimtab_engine_prefix_cache_queried_tokens_total", now, WINDOW_SECONDS, own)
        hit = history.rate("trimtab_engine_prefix_cache_hit_tokens_total", now, WINDOW_SECONDS, own)
        if queried and hit is not None:
            yield Sample("trimtab_engine_prefix_hit_ratio", min(hit / queried, 1.0), now, own)
