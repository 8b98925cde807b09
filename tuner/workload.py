"""What the traffic is like: the workload fingerprint and how near two of them are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from change.engine import RequestRecord
from tuner.window import quantile

SIMILAR = 0.5
"""Fingerprints nearer than this (root mean square of log ratios) count as the same kind of workload."""

_COMPARED = (
    "requests_per_second",
    "prompt_tokens_p50",
    "prompt_tokens_p90",
    "output_tokens_p50",
    "output_tokens_p90",
    "concurrency",
)


def fingerprint(records: Sequence[RequestRecord], seconds: float) -> dict[str, float]:
    """Arrival rate, lengths in tokens, prefix-hit ratio and concurrency of requests that finished in `seconds`."""
    if not records or seconds <= 0:
        return {}
    prompts = sorted(float(record.prompt_tokens) for record in records)
    outputs = sorted(float(record.output_tokens) for record in records)
    total = sum(prompts)
    return {
        "requests_per_second": len(records) / seconds,
        "prompt_tokens_p50": quantile(prompts, 0.5),
        "prompt_tokens_p90": quantile(prompts, 0.9),
        "output_tokens_p50": quantile(outputs, 0.5),
        "output_tokens_p90": quantile(outputs, 0.9),
        "prefix_hit_ratio": sum(record.cached_tokens for record in records) / total if total else 0.0,
        "concurrency": sum(record.finish - record.arrival for record in records) / seconds,
    }


def distance(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """Root mean square log ratio of two fingerprints; infinite where they share nothing."""
    logs = [
        math.log(one[name] / other[name])
        for name in _COMPARED
        if one.get(name, 0.0) > 0 and other.get(name, 0.0) > 0
    ]
    if not logs:
        return math.inf
    return math.sqrt(sum(value * value for value in logs) / len(logs))
