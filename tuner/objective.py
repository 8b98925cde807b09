"""Objectives: from a window's figures to a gain, and from a gain back to what a person reads.

A window has a score on a scale where better is higher and differences between adjacent windows are comparable: the log
of a latency or rate, the logit of a share. A gain is a difference of scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from tuner.settings import Objective, Slo

Direction = Literal["max", "min"]

LATENCIES = tuple(f"{name}_p{q}_seconds" for name in ("ttft", "itl", "e2e") for q in (50, 90, 99))
OBJECTIVE = "objective"
"""The objective's own name among a pair's gains."""
OTHERS: dict[str, Direction] = {
    **dict.fromkeys(LATENCIES, "min"),
    "output_tokens_per_second": "max",
}
"""What a report compares beside the objective, each with its better direction."""


@dataclass(frozen=True, slots=True)
class Scale:
    """One objective made countable.

    `score` gives a window's score or None where the window cannot tell; `value` turns a score into the quantity in
    `unit`; `metrics` are the figures the objective is made of.
    """

    name: str
    unit: str
    direction: Direction
    metrics: tuple[str, ...]
    score: Callable[[Mapping[str, float]], float | None]
    value: Callable[[float], float]
    is_share: bool = False
    note: str | None = None

    def effect(self, gain: float, reference: float) -> float:
        """Ratio - 1 that a gain means for an incumbent whose score is `reference`; better is positive."""
        if self.is_share:
            return expit(reference + gain) / expit(reference) - 1.0
        return math.expm1(gain)

    def margin(self, min_effect: float, reference: float) -> float:
        """The gain that counts as `min_effect` for an incumbent whose score is `reference`.

        A share near one cannot grow by a fixed ratio, so there half of the misses gone is enough.
        """
        if self.is_share:
            share = expit(reference)
            return logit(share + min(share * min_effect, (1.0 - share) / 2.0)) - reference
        return math.log1p(min_effect)


def expit(x: float) -> float:
    """The share of a logit."""
    return 1.0 / (1.0 + math.exp(-x)) if x >= 0 else math.exp(x) / (1.0 + math.exp(x))


def logit(share: float) -> float:
    """The logit of a share strictly between 0 and 1."""
    return math.log(share / (1.0 - share))


def log_gain(metric: str, candidate: float, incumbent: float) -> float | None:
    """Log ratio of one metric of a pair, better is positive; None where one of the two is not positive."""
    if candidate <= 0 or incumbent <= 0:
        return None
    ratio = math.log(candidate / incumbent)
    return -ratio if OTHERS.get(metric, "min") == "min" else ratio


def _rate(name: str, key: str, unit: str, least: float = 0.0) -> Scale:
    """A rate; one below `least` counts as that, so that a window in which nothing went well is not left out."""

    def score(metrics: Mapping[str, float]) -> float | None:
        value = metrics.get(key)
        if value is not None:
            value = max(value, least)
        return math.log(value) if value is not None and value > 0 else None

    return Scale(name, unit, "max", (key,), score, math.exp)


def _latency(name: str, keys: tuple[str, ...], note: str | None = None) -> Scale:
    def score(metrics: Mapping[str, float]) -> float | None:
        values = [metrics.get(key) for key in keys]
        if any(value is None or value <= 0 for value in values):
            return None
        return -sum(math.log(value) for value in values if value is not None) / len(keys)

    return Scale(name, "seconds", "min", keys, score, lambda s: math.exp(-s), note=note)


def _share() -> Scale:
    def score(metrics: Mapping[str, float]) -> float | None:
        held, met = metrics.get("requests"), metrics.get("slo_met_requests")
        if not held or met is None:
            return None
        return math.log((met + 0.5) / (held - met + 0.5))

    return Scale(
        "goodput", "share of arrivals within the SLO", "max", ("slo_share",), score, expit, is_share=True
    )


def _jitter() -> Scale:
    def score(metrics: Mapping[str, float]) -> float | None:
        high, middle = metrics.get("itl_p99_seconds"), metrics.get("itl_p50_seconds")
        return -math.log(high / middle) if high and middle else None

    return Scale(
        "jitter",
        "itl p99 / p50",
        "min",
        ("itl_p99_seconds", "itl_p50_seconds"),
        score,
        lambda s: math.exp(-s),
    )


def scale(objective: Objective, slo: Slo, *, saturated: bool, watts_known: bool = False) -> Scale:
    """The scale of an objective in the state the engine is in.

    `saturated` means that a queue stands under the incumbent: a share then measures demand, so good tokens count.
    """
    key = f"p{objective.quantile * 100:.0f}_seconds"
    match objective.name:
        case "goodput" if not slo.limits:
            return _latency(
                "goodput",
                ("ttft_p90_seconds", "itl_p90_seconds"),
                "no SLO limit is set: ttft and itl p90 count equally",
            )
        case "goodput" if saturated:
            return _rate("goodput", "good_tokens_per_second", "output tokens per second within the SLO", 0.5)
        case "goodput":
            return _share()
        case "throughput":
            note = None if saturated else "no queue stands: tokens per second measure demand, not the config"
            rate = _rate("throughput", "output_tokens_per_second", "output tokens per second")
            return Scale(rate.name, rate.unit, "max", rate.metrics, rate.score, rate.value, note=note)
        case "cost":
            per = "tokens_per_second_per_watt" if watts_known else "tokens_per_second_per_npu"
            return _rate("cost", per, per.replace("_", " "))
        case "jitter":
            return _jitter()
        case _:
            return _latency(objective.name, (f"{objective.name}_{key}",))
