"""The server's own counters, to hold the plugin's figures against."""

from __future__ import annotations

import re

import httpx2

from tests.real.engine import PATIENCE_SECONDS, RealEngine

SAMPLE = re.compile(r"^(?P<name>[a-zA-Z0-9_:]+)(?:\{(?P<labels>.*)\})? (?P<value>\S+)$")


class Scrape:
    """One reading of `/metrics`."""

    def __init__(self, engine: RealEngine) -> None:
        response = httpx2.get(
            f"{engine.url}/metrics",
            headers={"Accept": "text/plain;version=0.0.4"},
            trust_env=False,
            timeout=PATIENCE_SECONDS,
        )
        response.raise_for_status()
        self.samples: list[tuple[str, str, float]] = [
            (match["name"], match["labels"] or "", float(match["value"]))
            for line in response.text.splitlines()
            if (match := SAMPLE.match(line))
        ]

    def total(self, name: str, labels: str = "") -> float:
        """Return the sum of the samples of `name` whose labels hold the text `labels`."""
        values = [value for sample, found, value in self.samples if sample == name and labels in found]
        if not values:
            raise KeyError(name)
        return sum(values)
