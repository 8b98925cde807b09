"""Whether an engine is stuck: requests run, and it neither steps nor yields a token.

A hung engine still answers on /health and serves its metrics, whose gauges then stand still. What gives it away is
that no counter of its work grows while requests run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

from collectors.history import History
from collectors.sample import SERVER, Labels

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


@dataclass(frozen=True, slots=True)
class _Seen:
    """The time that readings cover (Unix seconds), and the last sign of life in it, if there was one."""

    first: float
    newest: float
    life: float | None


def stalled_seconds(running: Points, progress: Iterable[Points]) -> float | None:
    """Say for how long, up to the newest reading, requests have run without any counter of progress growing.

    `running` are readings of the requests that run, `progress` those of each counter. It cannot be longer than what
    was read. None is unknown: no counter was read, or not what runs.
    """
    seen = _seen(running, progress)
    if seen is None:
        return None
    since = seen.first if seen.life is None else max(seen.first, seen.life)
    return max(seen.newest - since, 0.0)


def stall(running: Points, progress: Iterable[Points], now: float, after_seconds: float) -> bool | None:
    """Say whether that is longer than `after_seconds`, over readings of more than that time.

    None is unknown: nothing was read, the readings are old, or they began too late to tell. A sign of life within
    the time (no request running, a counter that grew) makes it False.
    """
    seen = _seen(running, progress)
    if seen is None or now - seen.newest > after_seconds / 2.0:
        return None
    if seen.life is not None and seen.newest - seen.life <= after_seconds:
        return False
    return True if seen.newest - seen.first >= after_seconds else None


def rank_stalls(
    history: History, now: float, after_seconds: float, server: str | None = None
) -> dict[Labels, bool | None]:
    """Ask `stall` for each data-parallel rank of the tuned engine (or of the watched one named `server`).

    The keys are the labels of the rank's series of running requests. Empty where no running requests are known.
    """
    asked: Labels | None = None if server is None else ((SERVER, server),)
    start = now - 2.0 * after_seconds
    found: dict[Labels, bool | None] = {}
    for rank in history.series(RUNNING, asked):
        running = history.range(RUNNING, start, now, rank)
        found[rank] = stall(running, progress_of(history, rank, start, now), now, after_seconds)
    return found


def progress_of(history: History, rank: Labels, start: float, end: float) -> list[list[tuple[float, float]]]:
    """Read the counters by which a rank is judged.

    One stuck rank must not hide behind the others' progress; a rank without counters of its own (SGLang counts tokens
    for all ranks together) is judged by its server's.
    """
    server = tuple(pair for pair in rank if pair[0] == SERVER)
    own = [history.range(name, start, end, rank) for name in PROGRESS]
    return own if any(own) else [history.range(name, start, end, server) for name in PROGRESS]


def _seen(running: Points, progress: Iterable[Points]) -> _Seen | None:
    counters = [points for points in progress if points]
    if not running or not counters:
        return None
    # Only the last sign counts, which a healthy engine gave just now.
    signs = list(islice((time for time, value in reversed(running) if value <= 0.0), 1))
    for points in counters:
        late = pairwise(reversed(points))
        signs += islice((time for (time, after), (_, before) in late if after > before), 1)
    return _Seen(
        first=max(running[0][0], min(points[0][0] for points in counters)),
        newest=min(running[-1][0], max(points[-1][0] for points in counters)),
        life=max(signs, default=None),
    )
