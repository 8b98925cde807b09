"""An engine that has requests running and makes no progress: neither steps nor tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from collectors.history import History
from collectors.sample import Labels, Sample

LOOK_BACK_SECONDS = 840.0
"""How long a stall is followed: what the history keeps reading by reading."""
SUSPECT_SECONDS = 60.0
"""A step of a long prefill takes seconds; a minute without one is none. (The engine's own time-outs on an
NPU are tens of minutes.)"""

GROWING = (
    "trimtab_engine_step_tokens",
    "trimtab_engine_generation_tokens_total",
    # SGLang counts the tokens of a request when it ends, and the gaps between them as they come.
    "trimtab_engine_itl_seconds",
)
"""What grows while an engine works: the second, the counts of the others."""


@dataclass(frozen=True, slots=True)
class Track:
    """Readings of one quantity, oldest first: Unix times and values."""

    times: Sequence[float]
    values: Sequence[float]


def stalled_seconds(running: Track, growing: Sequence[Track]) -> float | None:
    """For how long requests have been running while nothing grew, up to the newest reading; 0 if something did.

    `growing` are counters with resets added up (one that falls began anew, which is progress); each is one
    sign of progress, and one is enough. None if not even two readings of one of them are known, or none
    of the requests running.
    """
    known = [track for track in growing if len(track.times) >= 2]
    if not running.times or not known:
        return None
    if running.values[-1] <= 0.0:
        return 0.0
    newest = min([running.times[-1], *(track.times[-1] for track in known)])
    since = max([_idle_until(running), *(_last_change(track) for track in known)])
    return max(newest - since, 0.0)


def _idle_until(running: Track) -> float:
    """Time of the first reading since which there were always requests running."""
    for index in range(len(running.values) - 1, -1, -1):
        if running.values[index] <= 0.0:
            return running.times[index + 1]
    return running.times[0]


def _last_change(track: Track) -> float:
    for index in range(len(track.values) - 1, 0, -1):
        if track.values[index] != track.values[index - 1]:
            return track.times[index]
    return track.times[0]


def samples(history: History, now: float) -> Iterator[Sample]:
    """How long each engine has stood still, and whether that is long enough to suspect a stall."""

    def track(name: str, own: Labels) -> Track:
        return Track(*history.column(name, own, now - LOOK_BACK_SECONDS, now))

    for own in history.series("trimtab_engine_requests_running"):
        running = track("trimtab_engine_requests_running", own)
        stalled = stalled_seconds(running, [track(name, own) for name in GROWING])
        if stalled is not None:
            yield Sample("trimtab_engine_stalled_seconds", stalled, now, own)
            yield Sample("trimtab_engine_stall_suspected", float(stalled >= SUSPECT_SECONDS), now, own)
