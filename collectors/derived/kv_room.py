"""How much of the KV cache is left."""

from __future__ import annotations

from collections.abc import Iterator

from collectors.history import History
from collectors.sample import Labels, Sample


def samples(history: History, now: float) -> Iterator[Sample]:
    """The free share of each engine, and blocks and tokens where the engine says how large its cache is."""
    for own in history.every_series("trimtab_engine_kv_cache_usage_ratio"):
        used = _number(history, "trimtab_engine_kv_cache_usage_ratio", own)
        if used is None or not 0.0 <= used <= 1.0:
            continue
        yield Sample("trimtab_engine_kv_free_ratio", 1.0 - used, now, own)
        blocks = _number(history, "trimtab_engine_kv_cache_blocks", own)
        if blocks is None:
            continue
        free = round(blocks * (1.0 - used))
        yield Sample("trimtab_engine_kv_free_blocks", float(free), now, own)
        block_tokens = _number(history, "trimtab_engine_kv_cache_block_tokens", own)
        if block_tokens is not None:
            yield Sample("trimtab_engine_kv_free_tokens", free * block_tokens, now, own)


def _number(history: History, name: str, own: Labels) -> float | None:
    found = history.latest(name, own)
    return float(found.value) if found is not None and isinstance(found.value, float | int) else None
