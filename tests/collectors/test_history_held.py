"""Whoever evaluates rules sees every series that is held, and which of them live."""

from __future__ import annotations

from collectors.history import History
from collectors.sample import Distribution, Sample, bound_text, labels

POWER = "npu_power_watts"
TTFT = "trimtab_engine_ttft_seconds"


def test_series_that_ended_or_are_of_watched_engines_are_held_too() -> None:
    history = History()
    for number in (1, 0):
        history.add([Sample(POWER, float(number), 10.0, labels(npu=str(number)))], f"source {number}")
    history.add([Sample(POWER, 2.0, 10.0, labels(npu="0", server="b"))], "server b")
    history.end("source 1")
    held = history.held_series(POWER, 11.0)
    assert [(series.last.value, live) for series, live in held] == [(0.0, True), (2.0, True), (1.0, False)]
    assert not any(live for _, live in history.held_series(POWER, 1000.0)), "nothing came for too long"
    assert history.held_series("unknown", 11.0) == []


def test_a_histograms_bounds_are_known() -> None:
    history = History()
    bounds = (0.25, 1e-05, 10.0, float("inf"))
    history.add([Sample(TTFT, Distribution(bounds, (1.0, 1.0, 1.0, 1.0), 1.0, 1.0), 10.0)])
    ((series, _),) = history.held_series(TTFT, 10.0)
    assert [bound_text(bound) for bound in series.bounds] == ["0.25", "1e-05", "10.0", "+Inf"]
