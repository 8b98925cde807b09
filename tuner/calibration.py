"""From what the incumbent alone looks like to how a campaign measures: washout, window, noise, detectable effect."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from change.engine import RequestRecord
from tuner.judge import LOOKS, detectable_gain
from tuner.results import Results
from tuner.settings import TuneSettings
from tuner.switchback import ScoredWindow, Timing
from tuner.window import quantile

LOOK_REQUESTS = 60
LOOK_SHARE = 0.15
"""Share of the budget that looking for traffic may take before the campaign calls it too thin."""
CALIBRATION_WINDOWS = 12
MIN_WINDOW_SECONDS = 5.0
MIN_WASHOUT_SECONDS = 1.5
WINDOW_REQUESTS = 40
CONFIRM_SHARE = 0.45
"""Share of the budget that one full confirmation may take."""
SATURATED_SHARE = 0.8
"""Share of looks with a queue from which the engine counts as saturated."""


@dataclass(frozen=True, slots=True)
class FirstLook:
    """What the incumbent's traffic looked like before anything was measured."""

    requests_per_second: float
    prefill_tokens_per_second: float
    e2e_p50: float
    e2e_p99: float
    saturated: bool


def seen_enough(records: Sequence[RequestRecord], seconds: float) -> bool:
    """Whether the look has seen enough requests, and four times as long as the slowest of them took."""
    if len(records) < LOOK_REQUESTS:
        return False
    return seconds >= 4.0 * quantile(sorted(record.finish - record.arrival for record in records), 0.99)


def few_text(requests: int, seconds: float) -> str:
    """What would be needed where too few requests came."""
    needed = LOOK_REQUESTS / LOOK_SHARE / max(requests, 1) * seconds / 60
    return f"{requests} requests finished in {seconds:.0f} s: at this rate a campaign needs about {needed:.0f} minutes"


def no_time_text(minutes: float, needed_seconds: float) -> str:
    """What would be needed where the budget ends before a trial could be confirmed."""
    return (
        f"{minutes:.0f} minutes leave no time for trials: about {needed_seconds / 60:.0f} are needed at least"
    )


def first_look(records: Sequence[RequestRecord], seconds: float, waiting: Collection[float]) -> FirstLook:
    """Summarise the look; `waiting` are the queue lengths seen."""
    spans = sorted(record.finish - record.arrival for record in records)
    standing = sum(value >= 1 for value in waiting) / len(waiting) if waiting else 0.0
    return FirstLook(
        len(records) / seconds,
        _prefill_speed(records),
        quantile(spans, 0.5),
        quantile(spans, 0.99),
        standing >= SATURATED_SHARE,
    )


def _prefill_speed(records: Sequence[RequestRecord]) -> float:
    speeds = sorted(
        (record.prompt_tokens - record.cached_tokens) / record.prefill_seconds
        for record in records
        if record.prefill_seconds > 0 and record.prompt_tokens > record.cached_tokens
    )
    return quantile(speeds, 0.5) if speeds else 1000.0


def shortest(look: FirstLook, budget_seconds: float) -> Timing:
    """The shortest timing worth scoring: enough requests, twice the slowest request's time, within the budget."""
    longest = longest_window(budget_seconds, MIN_WASHOUT_SECONDS)
    wanted = max(MIN_WINDOW_SECONDS, WINDOW_REQUESTS / look.requests_per_second, 2.0 * look.e2e_p99)
    washout = max(MIN_WASHOUT_SECONDS, min(look.e2e_p50, budget_seconds / 600))
    return Timing(washout=washout, window=min(wanted, longest), settle=1.3 * look.e2e_p99 + 1.0)


def longest_window(budget_seconds: float, washout: float) -> float:
    """The longest window with which a full confirmation fits into its share of the budget."""
    return max(MIN_WINDOW_SECONDS, CONFIRM_SHARE * budget_seconds / (2 * LOOKS[-1]) - washout)


@dataclass(frozen=True, slots=True)
class Calibrated:
    """How a campaign measures: `raw_sd` is the noise of a pair at the shortest window, `sd` what is left of it in the
    windows of `timing` once the traffic's part is out; `thin` says why that is not enough."""

    timing: Timing
    raw_sd: float
    sd: float
    detectable: float
    thin: str | None


def settle(
    results: Results, windows: Sequence[ScoredWindow], timing: Timing, settings: TuneSettings
) -> Calibrated:
    """From the incumbent against itself to windows long enough to see twice the smallest effect.

    Noise falls with the square root of the length. If even the longest window is too noisy the campaign is too thin.
    """
    raw = results.calibrate(windows, settings.min_effect)
    sd = results.adjustment.sd
    wanted = 0.9 * 2.0 * results.margin / detectable_gain(1.0)
    budget = settings.minutes * 60.0
    longest = max(timing.window, longest_window(budget, timing.washout))
    window = min(timing.window * max(1.0, (sd / wanted) ** 2), longest)
    sd *= (timing.window / window) ** 0.5
    results.lengthen(sd)
    detectable = results.scale.effect(detectable_gain(sd), results.reference)
    thin = None
    if detectable_gain(sd) > 2.0 * results.margin:
        minutes = settings.minutes * (detectable_gain(sd) / (2.0 * results.margin)) ** 2
        thin = (
            f"an effect under {detectable:.0%} cannot be told from noise within {settings.minutes:.0f} minutes, and"
            f" twice tune.min_effect is {2 * settings.min_effect:.0%}: it would take about {minutes:.0f} minutes of"
            " traffic like this, or a larger tune.min_effect"
        )
    return Calibrated(Timing(timing.washout, window, timing.settle), raw, sd, detectable, thin)


def queue_range(waiting: Collection[float]) -> float:
    """Upper end of the incumbent's queue: its 95th percentile; unknown is unlimited."""
    return quantile(sorted(waiting), 0.95) if waiting else float("inf")
