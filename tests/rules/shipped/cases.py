"""The traces beside the tests: for each shipped rule one that fires it and near misses that must not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from rules.durations import seconds_of
from rules.trace import TraceReadings

HERE = Path(__file__).parent / "cases"
LIMITS: Mapping[str, float | None] = {
    "ttft_p99_seconds": 2.0,
    "itl_p99_seconds": 0.1,
    "error_ratio": 0.01,
}
"""The SLO of the traces."""


@dataclass(frozen=True)
class Case:
    """One trace: `at` is when the alert fires first (seconds; None: never), `labels` are some that it must have."""

    rule: str
    name: str
    step: float
    series: Mapping[str, str]
    at: float | None
    labels: Mapping[str, str]

    @property
    def readings(self) -> TraceReadings:
        """The trace."""
        given = [{"series": name, "values": values} for name, values in self.series.items()]
        return TraceReadings.from_input_series(given, self.step)

    def __str__(self) -> str:
        return f"{self.rule}-{self.name}"


def cases() -> Iterator[Case]:
    """Every trace of every file."""
    for path in sorted(HERE.glob("*.yaml")):
        for entry in yaml.safe_load(path.read_text(encoding="utf-8")):
            yield from _log_cases(entry) if "line" in entry else _cases(entry)


def _cases(entry: Mapping[str, Any]) -> Iterator[Case]:
    always = entry.get("series", {})
    step = seconds_of(entry.get("step", 15))
    fires = entry["fires"]
    yield Case(
        entry["rule"],
        "fires",
        step,
        {**always, **fires["series"]},
        seconds_of(fires["at"]),
        fires.get("labels", {}),
    )
    for name, series in entry["silent"].items():
        yield Case(entry["rule"], name.replace(" ", "_"), step, {**always, **series}, None, {})


def _log_cases(entry: Mapping[str, str]) -> Iterator[Case]:
    """A line of the signature fires at once; one of 301 s ago, and a new one of a neighbour's, do not."""

    def line(signature: str, values: str) -> dict[str, str]:
        severity = entry.get("severity", "error")
        return {
            f'trimtab_log_event_time_seconds{{signature="{signature}",severity="{severity}",source="engine"}}': values
        }

    rule, own = entry["rule"], entry["line"]
    yield Case(
        rule, "fires", 15.0, line(own, "_ _ 30x30"), seconds_of(entry.get("at", 30)), {"signature": own}
    )
    yield Case(rule, "old_line", 15.0, line(own, "-301x30"), None, {})
    yield Case(rule, "other_line", 15.0, line(entry["not"], "_ _ 30x30"), None, {})
