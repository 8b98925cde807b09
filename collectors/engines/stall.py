"""Whether an engine is stuck: requests run, and it neither steps nor yields a token.

A hung engine still answers on /health and serves its metrics, whose gauges then stand still. What gives it away is
that no counter of its work grows while requests run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from collectors.history import History
from collectors.metrics import SERVER
from collectors.sample import Labels

Points = Sequence[tuple[float, float]]
"""Times and values, oldest first, as `History.range` gives them."""

RUNNING = "trimtab_engine_requests_running"
PROGRESS = (
    "trimtab_engine_step_tokens",
    "trimtab_engine_generation_tokens_total",
    # SGLang counts generated tokens when a request ends; the gaps between tokens it counts as they come.
    "trimtab_engine_itl_seconds",
)
"""Counters that grow while an engine works. Prompt tokens and finished requests also grow when a client sends or
gives up, so they prove nothing."""


def stall(running: Points, progress: Iterable[Points], now: float, after_seconds: float) -> bool | None:
    """Say whether requests have run for `after_seconds` up to now without any counter of progress growing.

    `running` are readings of the requests that run, `progress` those of each counter, over more than
    `after_seconds`. None is unknown: no counter was read, the readings are old, or too short to tell. Whatever
    shows life within the time (no request running, a counter that grew) makes it False.
    """
    counters = [points for points in progress if points]
    if not running or not counters:
        return None
    begin = now - after_seconds
    if any(value <= 0.0 for time, value in running if begin <= time <= now):
        return False
    if any(_grew(points, begin, now) for points in counters):
        return False
    # It stood still as far as was seen; was all of the time seen, up to now?
    first = max(running[0][0], min(points[0][0] for points in counters))
    last = min(running[-1][0], max(points[-1][0] for points in counters))
    if first > begin or now - last > after_seconds / 2.0:
        return None
    return True


def rank_stalls(
    history: History, now: float, after_seconds: float, server: str | None = None
) -> dict[Labels, bool | None]:
    """Ask `stall` for each data-parallel rank of the tuned engine (or of the watched one named `server`).

    The keys are the labels of the rank's series of running requests. One stuck rank must not hide behind the
    others' progress; a rank without counters of its own (SGLang counts tokens for all ranks together) is judged by
    the server's. Empty where no running requests are known.
    """
    asked: Labels | None = None if server is None else ((SERVER, server),)
    start = now - 2.0 * after_seconds
    found: dict[Labels, bool | None] = {}
    for rank in history.series(RUNNING, asked):
        own = [history.range(name, start, now, rank) for name in PROGRESS]
        if not any(own):
            own = [history.range(name, start, now, asked) for name in PROGRESS]
        found[rank] = stall(history.range(RUNNING, start, now, rank), own, now, after_seconds)
    return found


def _grew(points: Points, begin: float, now: float) -> bool:
    inside = [point for point in points if begin <= point[0] <= now]
    return any(after > before for (_, before), (_, after) in pairwise(inside))
