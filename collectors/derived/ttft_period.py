"""Whether the time to first token rises and falls with a period, such as that of a job beside the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from collectors.derived.periodicity import Floats, PeriodSearch
from collectors.history import History
from collectors.sample import Labels, Sample

SCALES = (
    # Seconds that are looked at and the step: periods of 8 s to 2.8 min, and of 80 s to 21 min. Each scale is
    # what one tier of the history surely holds.
    (840.0, 2.0),
    (6400.0, 20.0),
)
SLACK_SECONDS = 0.5
"""Readings that are to come once a step come a little late at times."""


def means_in_steps(times: Floats, counts: Floats, sums: Floats, edges: Floats) -> Floats:
    """Mean observation between each two edges, from growing counts and sums; not a number where none was made.

    The reading that held at an edge counts for it; before the first reading nothing is known.
    """
    at = np.searchsorted(times, edges, side="right") - 1
    known = at >= 0
    at = np.maximum(at, 0)
    grown, total = np.diff(counts[at]), np.diff(sums[at])
    good = known[:-1] & (grown > 0.0)
    return np.where(good, total / np.where(good, grown, 1.0), np.nan)


def works(history: History, now: float) -> Iterator[Sample | Callable[[], list[Sample]]]:
    """What is to be done for each engine: some milliseconds at a time, on arrays that nobody else has."""
    for own in history.every_series("trimtab_engine_ttft_seconds"):
        found: list[tuple[float, float, float]] = []
        for seconds, step in SCALES:
            search = PeriodSearch(_series(history, own, now, seconds, step))
            while not search.done:
                yield partial(_go_on, search)
            if (period := search.period) is not None:
                found.append((period.confidence, period.strength, period.steps * step))
        yield from _samples(found, own, now)


def _go_on(search: PeriodSearch) -> list[Sample]:
    search.go_on()
    return []


def _samples(found: Sequence[tuple[float, float, float]], own: Labels, now: float) -> Iterator[Sample]:
    """The likeliest period on the scale that shows it best, its strength and its confidence."""
    if not found:
        return
    confidence, strength, seconds = max(found)
    # The better of several looks: each of them may be wrong.
    allowed = max(1.0 - len(found) * (1.0 - confidence), 0.0)
    yield Sample("trimtab_engine_ttft_period_seconds", seconds, now, own)
    yield Sample("trimtab_engine_ttft_period_strength_ratio", strength, now, own)
    yield Sample("trimtab_engine_ttft_period_confidence_ratio", allowed, now, own)


def _series(history: History, own: Labels, now: float, seconds: float, step: float) -> Floats:
    """Logarithms of the mean TTFT of each step: half and double are equally far from the usual."""
    name = "trimtab_engine_ttft_seconds"
    times, counts = map(np.asarray, history.column(name, own, now - seconds, now))
    _, sums = map(np.asarray, history.column(name, own, now - seconds, now, "sum"))
    # Steps without a reading of their own are known in a pattern, which looks like a period.
    if len(times) < 2 or np.median(np.diff(times)) > step + SLACK_SECONDS:
        return np.array([])
    means = means_in_steps(times, counts, sums, now - np.arange(seconds, -step / 2.0, -step))
    return np.log(np.where(means > 0.0, means, np.nan))
