"""An engine that has requests running and makes no progress: neither steps nor tokens."""

from __future__ import annotations

from collections.abc import Iterator

from collectors.engines.stall import RUNNING, progress_of, stalled_seconds
from collectors.history import History
from collectors.sample import Sample

LOOK_BACK_SECONDS = 840.0
"""How long a stall is followed: what the history keeps reading by reading."""
SUSPECT_SECONDS = 60.0
"""A step of a long prefill takes seconds; a minute without one is none. (The engine's own time-outs on an
NPU are tens of minutes.)"""


def samples(history: History, now: float) -> Iterator[Sample]:
    """How long each engine has stood still, and whether that is long enough to suspect a stall."""
    start = now - LOOK_BACK_SECONDS
    for rank in history.every_series(RUNNING):
        running = history.range(RUNNING, start, now, rank)
        stalled = stalled_seconds(running, progress_of(history, rank, start, now))
        if stalled is not None:
            yield Sample("trimtab_engine_stalled_seconds", stalled, now, rank)
            yield Sample("trimtab_engine_stall_suspected", float(stalled >= SUSPECT_SECONDS), now, rank)
