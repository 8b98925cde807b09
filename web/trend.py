"""The last quarter of an hour of the live page's figures, so that its sparklines have a past when it is opened."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

POINTS = 450
"""At one point every other second: 15 minutes."""

FIGURES = {
    "ttft_p50": ("latency", "ttft_p50"),
    "ttft_p99": ("latency", "ttft_p99"),
    "itl_p50": ("latency", "itl_p50"),
    "itl_p99": ("latency", "itl_p99"),
    "e2e_p50": ("latency", "e2e_p50"),
    "e2e_p99": ("latency", "e2e_p99"),
    "output_tokens_per_second": ("throughput", "output_tokens_per_second"),
    "running": ("queue", "running"),
    "waiting": ("queue", "waiting"),
    "kv_usage": ("queue", "kv_usage"),
}


class Trend:
    """A ring of readings; an unknown stays unknown."""

    def __init__(self, points: int = POINTS) -> None:
        self._readings: deque[tuple[float, list[float | None]]] = deque(maxlen=points)

    def add(self, now: float, live: Mapping[str, Any]) -> None:
        """Keep one reading of every figure."""
        self._readings.append((now, [_number(live, *path) for path in FIGURES.values()]))

    def as_columns(self) -> dict[str, Any]:
        """Return `web.shapes.Trend`."""
        return {
            "times": [time for time, _ in self._readings],
            "series": {name: [row[i] for _, row in self._readings] for i, name in enumerate(FIGURES)},
        }


def _number(live: Mapping[str, Any], group: str, name: str) -> float | None:
    value = (live.get(group) or {}).get(name)
    return float(value) if isinstance(value, int | float) else None
