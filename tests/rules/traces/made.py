"""Traces drawn from a seed: gauges, counters and histograms with gaps, ends, resets and what is no number."""

from __future__ import annotations

import random
from typing import Any

INTERVALS = (("15s", "15s"), ("10s", "30s"), ("7s", "15s"), ("30s", "15s"), ("15s", "1m"))
STEPS = 90


def trace(seed: int) -> dict[str, Any]:
    """A trace in the form of the files beside this one."""
    rng = random.Random(seed)
    interval, evaluation = rng.choice(INTERVALS)
    series = [
        {"series": f'x{{n="{number}",pod="p{number % 2}"}}', "values": " ".join(_gauge(rng))}
        for number in range(3)
    ]
    series += [
        {"series": f'c_total{{n="{number}"}}', "values": " ".join(_counter(rng))} for number in range(2)
    ]
    series += _histogram(rng)
    return {
        "interval": interval,
        "evaluation_interval": evaluation,
        "until": "20m",
        "input_series": series,
        "rules": [_rule(rng, number, expr) for number, expr in enumerate(_expressions(rng))],
    }


def _broken(rng: random.Random, values: list[str]) -> list[str]:
    """Leave some readings out, end the series now and then."""
    at = 0
    while at < len(values):
        drawn = rng.random()
        if drawn < 0.03:
            for place in range(at, min(len(values), at + rng.randint(1, 25))):
                values[place] = "_"
        elif drawn < 0.05:
            values[at] = "stale"
        at += rng.randint(1, 4)
    return values


def _gauge(rng: random.Random) -> list[str]:
    level, values = rng.uniform(0, 10), []
    for _ in range(STEPS):
        if rng.random() < 0.15:
            level = rng.uniform(0, 10)
        strange = rng.random()
        values.append("NaN" if strange < 0.01 else "Inf" if strange < 0.015 else f"{level:.3g}")
    return _broken(rng, values)


def _counter(rng: random.Random) -> list[str]:
    total, rate, values = rng.randint(0, 1000), rng.randint(0, 40), []
    for _ in range(STEPS):
        if rng.random() < 0.1:
            rate = rng.choice((0, rng.randint(0, 40), rng.randint(100, 300)))
        total = rng.randint(0, 5) if rng.random() < 0.03 else total + rate
        values.append(str(total))
    return _broken(rng, values)


def _histogram(rng: random.Random) -> list[dict[str, str]]:
    bounds = ("0.1", "0.5", "2", "+Inf")
    counts, weights = [0] * len(bounds), [8, 3, 1, 1]
    columns: list[list[str]] = [[] for _ in bounds]
    for _ in range(STEPS):
        if rng.random() < 0.1:
            weights = [rng.randint(0, 9) for _ in bounds]
        if rng.random() < 0.02:
            counts = [0] * len(bounds)
        for place, weight in enumerate(weights):
            counts[place] += rng.randint(0, weight)
        for place in range(len(bounds)):
            columns[place].append(str(sum(counts[: place + 1])))
    missing = set(rng.sample(range(STEPS), 10))
    return [
        {
            "series": f'h_bucket{{le="{bound}"}}',
            "values": " ".join("_" if at in missing else value for at, value in enumerate(column)),
        }
        for bound, column in zip(bounds, columns, strict=True)
    ]


def _expressions(rng: random.Random) -> list[str]:
    level, window = rng.randint(2, 8), rng.choice(("1m", "2m", "5m"))
    return [
        f"x > {level}",
        f"x < {level}",
        f"x != {level}",
        f"max by (pod) (x) > {level}",
        # In which order series are added up is nobody's promise: a mean that is just the limit hangs on its last bit.
        f"avg(x) > {level}.0007",
        f"rate(c_total[{window}]) > {rng.choice((0.5, 1, 2, 5))}",
        f"increase(c_total[{window}]) < {rng.randint(10, 200)}",
        f"sum(rate(c_total[{window}])) > {rng.choice((1, 3))}",
        f"avg_over_time(x[{window}]) > {level}",
        f"max_over_time(x[{window}]) - min_over_time(x[{window}]) > 5",
        f"quantile_over_time(0.9, x[{window}]) > {level}",
        f"changes(x[{window}]) > 1",
        f"deriv(x[{window}]) > 0.02",
        f"histogram_quantile(0.9, sum by (le) (rate(h_bucket[{window}]))) > 0.6",
        'absent(x{n="1"})',
        f"x > {level} and on (n) rate(c_total[{window}]) > 0.5",
        f"x > {level} unless x > {level + 1}",
        f'x{{n="0"}} > {level} or x{{n=~"1|2"}} < {level - 1}',
        f"count(x) < 3 or sum by (n) (x * 2) >= {2 * level}",
    ]


def _rule(rng: random.Random, number: int, expr: str) -> dict[str, Any]:
    rule: dict[str, Any] = {"alert": f"R{number}", "expr": expr, "labels": {"severity": "info"}}
    if rng.random() < 0.7:
        rule["for"] = f"{rng.choice((15, 30, 45, 60, 100, 300))}s"
    if rng.random() < 0.4:
        rule["keep_firing_for"] = f"{rng.choice((15, 30, 60, 200))}s"
    rule["annotations"] = {"summary": "{{ $labels.n }} of {{ $labels.pod }}"}
    return rule
