"""Soft limits: what a candidate may not break or lose, whatever it gains."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from tuner.adjust import Adjustment
from tuner.candidate import Series
from tuner.objective import OTHERS, Scale, log_gain
from tuner.settings import Limit, Slo
from tuner.switchback import ScoredWindow
from tuner.window import Metrics, gap_quantile, quantile, request_latency


def other_gains(candidate: Metrics, incumbent: Metrics) -> dict[str, float]:
    """Log ratio of every other metric that both windows know, better is positive."""
    found: dict[str, float] = {}
    for name in OTHERS:
        if name in candidate and name in incumbent:
            gain = log_gain(name, candidate[name], incumbent[name])
            if gain is not None:
                found[name] = gain
    return found


@dataclass(frozen=True, slots=True)
class Excess:
    """How far over its limit something is, on the log scale (zero or less is within it), and the standard error."""

    size: float
    what: str
    error: float = 0.0

    @property
    def broken(self) -> bool:
        """Whether the limit does not hold."""
        return self.size > 0

    @property
    def surely(self) -> bool:
        """Whether the limit does not hold, and noise is no likely reason."""
        return self.size > 1.5 * self.error

    @property
    def chance(self) -> float:
        """Probability that the limit holds after all."""
        if self.error <= 0:
            return 0.0 if self.broken else 1.0
        return 0.5 * math.erfc(self.size / self.error / math.sqrt(2.0))

    def __str__(self) -> str:
        return f"{self.what} by {math.expm1(self.size):.0%}"


NOTHING = Excess(-1.0, "nothing")


@dataclass(frozen=True, slots=True)
class Limits:
    """The rules of one campaign."""

    scale: Scale
    slo: Slo
    max_regression: float
    saturated: bool = False
    """Whether a queue stands under the incumbent: only then do tokens per second tell of the config."""

    def judged(self) -> list[str]:
        """Metrics that may not lose more than max_regression: none of a latency that is the objective or has a limit.

        Quantiles of one latency often move against each other; which of them matters is said by the objective and by
        the limits. Tokens per second of an engine without a queue measure the demand, so there they are no loss. With
        a max_regression of 1 all of a metric may be lost: none is judged.
        """
        if self.max_regression >= 1.0:
            return []
        limited = {limit.metric for limit in self.slo.limits} | {
            name.split("_")[0] for name in self.scale.metrics
        }
        return [
            name
            for name in OTHERS
            if name.split("_")[0] not in limited and (self.saturated or name != "output_tokens_per_second")
        ]

    def worst(self, series: Series, adjustments: Mapping[str, Adjustment]) -> Excess:
        """The tightest of all limits over the pairs of one phase."""
        found = [self._slo(series, adjustments), self._regression(series, adjustments)]
        return max(found, key=lambda excess: excess.size)

    def _regression(self, series: Series, adjustments: Mapping[str, Adjustment]) -> Excess:
        worst = NOTHING
        for name in self.judged():
            gains = series.gains(adjustments[name])
            if gains:
                size = -median(gains) - math.log1p(self.max_regression)
                if size > worst.size:
                    error = adjustments[name].sd / math.sqrt(len(gains))
                    worst = Excess(size, f"{name} loses more than max_regression allows,", error)
        return worst

    def _slo(self, series: Series, adjustments: Mapping[str, Adjustment]) -> Excess:
        """Quantiles over all windows of a side together. A limit that the incumbent breaks already may be broken no
        further than by max_regression beyond the incumbent's own figure."""
        worst = NOTHING
        for limit in self.slo.limits:
            figure, own = pooled(series.mine, limit), pooled(series.incumbent, limit)
            if figure is None or own is None:
                continue
            bound = limit.seconds if own <= limit.seconds else own * (1 + self.max_regression)
            size = math.log(figure / bound)
            if size > worst.size:
                error = adjustments[limit.key].sd / math.sqrt(len(series.mine))
                worst = Excess(size, f"{limit.key} is over the SLO", error)
        return worst


def pooled(windows: Sequence[ScoredWindow], limit: Limit) -> float | None:
    """The limited quantile over all requests (all token gaps for `itl`) of several windows; None without any."""
    if limit.metric == "itl":
        gaps: Counter[int] = Counter()
        for window in windows:
            gaps.update(window.gaps)
        return gap_quantile(gaps, limit.quantile)
    taken = [request_latency(record, limit.metric) for window in windows for record in window.records]
    known = sorted(value for value in taken if value is not None and value > 0)
    return quantile(known, limit.quantile) if known else None
