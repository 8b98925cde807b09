"""Whether a series repeats itself: autocorrelation, with a significance that allows for noise with a memory."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import uniform_filter1d

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

SHORTEST_LAG = 4
"""In steps; shorter ones cannot be told from the memory of the noise."""
CYCLES = 5
"""A period is looked for only if the series has room for this many of it; with fewer, drift looks like one."""
LEAST_KNOWN_RATIO = 0.5
SHUFFLES = 199
"""Gives a significance in steps of half a percent."""
SHUFFLES_AT_ONCE = 20
ENOUGH_BETTER = 10
"""Once so many shuffles repeat themselves more than the series, it cannot come to 95% any more (Besag and Clifford
1991): without a period, a few dozen shuffles are enough."""
CLIP_DEVIATIONS = 4.0
"""One request that waited a minute must not be the whole of the series."""
ROUNDING = 1e-9
"""Of the level; a series that varies less is constant, and what is left of it is the rounding of the arithmetic."""
LEAST_LINES, MOST_LINES = 4, 15
"""Lines of the spectrum on either side that tell the noise at a line; a period is one line or a comb of them."""
SAME_PEAK_RATIO = 0.6
"""A repetition is as strong at twice and thrice its period; the first lag this near the strongest is the period."""


@dataclass(frozen=True, slots=True)
class Period:
    """The likeliest period.

    `steps` is its length in steps of the series, `strength` the autocorrelation there (1: each cycle like the
    last), `confidence` the share of shuffled series that repeat themselves less at any lag; below 0.95 it is rough.
    """

    steps: float
    strength: float
    confidence: float


class PeriodSearch:
    """Looks for a period in an evenly spaced series, some milliseconds at a time; what is no finite number is unknown.

    Slow drift is taken out with a running mean, the noise's memory with a first-order autoregression, and what
    colour is left by weighing each line of the spectrum with its neighbours. The same is done to shuffles of
    the series, and the best lag of each counts, so that the confidence holds however many lags are looked at.
    """

    def __init__(self, series: Floats, *, seed: int = 0) -> None:
        self.period: Period | None = None
        """Once done: None if less than half is known, it is too short, does not vary, or no lag stands out at all."""
        self._series = series
        self._steps = self._search(np.random.default_rng(seed))
        self.done = False

    def go_on(self) -> None:
        """Do the next part of the work."""
        try:
            next(self._steps)
        except StopIteration as end:
            self.period, self.done = end.value, True

    def _search(self, draw: np.random.Generator) -> Generator[None, None, Period | None]:
        series = self._series
        known = np.isfinite(series)
        longest = len(series) // CYCLES
        if longest <= SHORTEST_LAG or known.mean() < LEAST_KNOWN_RATIO:
            return None
        centre = float(np.median(series[known]))
        if float(np.abs(series[known] - centre).max()) <= ROUNDING * abs(centre):
            return None
        rest, known = _without_memory(_detrended(_clipped(series, known), known, 2 * longest), known)
        if known.sum() < longest:
            return None
        correlations, own_tops, best = _repeats(rest[None, :], known, longest)
        if best[0] <= 0.0:
            return None
        made = better = 0
        while made < SHUFFLES and better < ENOUGH_BETTER:
            yield
            rows = np.zeros((min(SHUFFLES_AT_ONCE, SHUFFLES - made), len(rest)))
            rows[:, known] = draw.permuted(np.tile(rest[known], (len(rows), 1)), axis=1)
            made += len(rows)
            better += int(np.sum(_repeats(rows, known, longest)[2] >= best[0]))
        lag = int(np.flatnonzero(own_tops[0] >= SAME_PEAK_RATIO * best[0])[0])
        return Period(
            steps=lag + _offset(*correlations[0, lag - 1 : lag + 2]),
            strength=float(np.clip(correlations[0, lag], 0.0, 1.0)),
            confidence=1.0 - (1 + better) / (1 + made),
        )


def find_period(series: Floats, *, seed: int = 0) -> Period | None:
    """Look for a period at once; see `PeriodSearch`."""
    search = PeriodSearch(series, seed=seed)
    while not search.done:
        search.go_on()
    return search.period


def _repeats(rows: Floats, known: Bools, longest: int) -> tuple[Floats, Floats, Floats]:
    """Of each row the autocorrelations, how far each lag up to `longest` stands out, and the most that one does."""
    correlations, pairs = _autocorrelations(_flattened(rows, known), known, 2 * longest + 2)
    tops = _tops(correlations * np.sqrt(pairs))[:, :longest]
    return correlations, tops, tops.max(axis=1)


def _clipped(series: Floats, known: Bools) -> Floats:
    centre = float(np.median(series[known]))
    spread = 1.4826 * float(np.median(np.abs(series[known] - centre)))
    limit = CLIP_DEVIATIONS * spread if spread > 0.0 else np.inf
    return np.clip(series, centre - limit, centre + limit)


def _detrended(series: Floats, known: Bools, width: int) -> Floats:
    """Less the running mean over `width` steps; 0 where unknown."""
    filled = np.where(known, series, 0.0)
    weights = uniform_filter1d(known.astype(float), width, mode="constant")
    means = uniform_filter1d(filled, width, mode="constant") / np.maximum(weights, 1e-9)
    return np.where(known, series - means, 0.0)


def _without_memory(values: Floats, known: Bools) -> tuple[Floats, Bools]:
    """What a first-order autoregression does not foretell, and where both of its moments are known."""
    both = known[1:] & known[:-1]
    before, after = values[:-1][both], values[1:][both]
    power = float(before @ before)
    memory = float(np.clip(before @ after / power, 0.0, 0.99)) if power > 0.0 else 0.0
    rest = np.concatenate([[0.0], np.where(both, values[1:] - memory * values[:-1], 0.0)])
    known = np.concatenate([[False], both])
    return np.where(known, rest - rest[known].mean(), 0.0) if both.any() else rest, known


def _flattened(rows: Floats, known: Bools) -> Floats:
    """Each row with each line of its spectrum over the noise there: the median of the lines around it."""
    spectra = np.fft.rfft(rows, axis=1)
    power = np.abs(spectra) ** 2
    noise = np.empty_like(power)
    for line in range(power.shape[1]):
        reach = min(max(line // 2, LEAST_LINES), MOST_LINES)  # fewer at the low end, where it is steep
        noise[:, line] = np.median(power[:, max(line - reach, 1) : line + reach + 1], axis=1)
    floor = 1e-12 * power.max(axis=1, keepdims=True)  # of a series that is nothing but its period
    flat = np.fft.irfft(spectra / np.sqrt(np.maximum(noise, floor)), rows.shape[1], axis=1)
    return np.where(known, flat - flat[:, known].mean(axis=1, keepdims=True), 0.0)


def _autocorrelations(rows: Floats, known: Bools, lags: int) -> tuple[Floats, Floats]:
    """Of each row the autocorrelation at the lags from 0 to `lags`, and the pairs of known values at each lag.

    Rows are smoothed over three steps, since a period need not be a whole number of them.
    """
    size = 2 * rows.shape[1]
    smooth = uniform_filter1d(rows, 3, axis=1, mode="constant")
    sums = np.fft.irfft(np.abs(np.fft.rfft(smooth, size, axis=1)) ** 2, size, axis=1)[:, : lags + 1]
    pairs = np.fft.irfft(np.abs(np.fft.rfft(known.astype(float), size)) ** 2, size)[: lags + 1]
    pairs = np.maximum(np.round(pairs), 1.0)
    variance = sums[:, :1] / pairs[0]
    return sums / pairs / np.where(variance > 0.0, variance, 1.0), pairs


def _tops(weighted: Floats) -> Floats:
    """By lag, how far each local maximum rises above what lies before it; 0 where there is none.

    A lag counts together with its double, as far as it is no stronger: what repeats after one cycle does after
    two. Above what lies before, because a wave longer than all lags has wiggles on its first slope.
    """
    lags = np.arange(1, weighted.shape[1] // 2)
    scores = (weighted[:, lags] + np.minimum(weighted[:, 2 * lags], weighted[:, lags])) / np.sqrt(2.0)
    lowest = np.maximum(np.minimum.accumulate(scores, axis=1), 0.0)
    inner = scores[:, 1:-1]
    top = (inner > scores[:, :-2]) & (inner >= scores[:, 2:])
    found = np.zeros_like(weighted)
    found[:, 2 : 2 + inner.shape[1]] = np.where(top, np.maximum(inner - lowest[:, 1:-1], 0.0), 0.0)
    found[:, :SHORTEST_LAG] = 0.0
    return found


def _offset(left: float, middle: float, right: float) -> float:
    """Where the top of the parabola through a peak and its neighbours lies, in steps from the peak."""
    bend = left - 2.0 * middle + right
    return float(np.clip(0.5 * (left - right) / bend, -0.5, 0.5)) if bend < 0.0 else 0.0
