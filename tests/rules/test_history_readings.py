"""Expressions over the history mean what they mean on a Prometheus that reads our page."""

from __future__ import annotations

import math
import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from collectors.history import History
from collectors.legacy import legacy_samples
from collectors.metrics import METRICS
from collectors.metrics.own import PRESENT_NAMES
from collectors.sample import Distribution, Labels, Sample, labels
from daemon.exporter import render
from rules.expression import parse
from rules.history_readings import HistoryReadings, without_a_past
from rules.readings import Matcher, Point, Track
from tests.prepare import ROOT

TEMPERATURE = "npu_temperature_celsius"
TOKENS = "trimtab_engine_generation_tokens_total"
TTFT = "trimtab_engine_ttft_seconds"
WAITING = "trimtab_engine_requests_waiting"
START = 1_700_000_000.0
FIRST, OTHER = labels(npu="0"), labels(npu="1")


def ttft(
    time: float, *counts: float, own: Labels = (), bounds: tuple[float, ...] = (0.25, 1.0, 1e-05)
) -> Sample:
    return Sample(TTFT, Distribution(tuple(sorted(bounds)), counts, 3.5, counts[-1]), time, own)


def gauges(
    history: History, name: str, values: list[float], own: Labels = (), source: str | None = None
) -> None:
    """One reading a second from START on."""
    for second, value in enumerate(values):
        history.add([Sample(name, value, START + second, own)], source)


def value(history: History, expression: str, now: float) -> list[Point]:
    return parse(expression).evaluate(HistoryReadings(history), now)


def number(history: History, expression: str, now: float) -> float:
    (found,) = value(history, expression, now)
    return found.value


def test_a_gauge_is_read_with_its_labels() -> None:
    history = History()
    gauges(history, TEMPERATURE, [70.0, 80.0, 90.0], FIRST)
    gauges(history, TEMPERATURE, [50.0, 50.0, 50.0], OTHER)
    assert value(history, f"{TEMPERATURE} > 85", START + 2.5) == [Point(FIRST, 90.0)]
    assert value(history, f'{TEMPERATURE}{{npu="1"}}', START + 2.0) == [Point(OTHER, 50.0)]
    assert number(history, f"max(avg_over_time({TEMPERATURE}[10s]))", START + 2.0) == 80.0


def test_readings_lie_after_the_start_and_not_after_the_end() -> None:
    history = History()
    gauges(history, TEMPERATURE, [1.0, 2.0, 3.0, 4.0], FIRST)
    (track,) = HistoryReadings(history).tracks(TEMPERATURE, (), START, START + 2.0)
    assert track == Track(FIRST, [START + 1.0, START + 2.0], [2.0, 3.0])


def test_a_counter_that_began_again_has_grown_as_on_prometheus() -> None:
    history = History()
    gauges(history, TOKENS, [0.0, 10.0, 20.0, 5.0, 15.0])
    assert number(history, f"increase({TOKENS}[4s])", START + 4.0) == pytest.approx(35.0)


def test_a_histogram_is_its_buckets_sum_and_count() -> None:
    history = History()
    history.add([ttft(START, 0.0, 0.0, 0.0, own=labels(engine="0"))])
    history.add([ttft(START + 10.0, 0.0, 6.0, 8.0, own=labels(engine="0"))])
    found = {
        dict(point.labels)["le"]: point.value for point in value(history, f"{TTFT}_bucket", START + 10.0)
    }
    assert found == {"1e-05": 0.0, "0.25": 6.0, "1.0": 8.0, "+Inf": 8.0}
    assert value(history, f"{TTFT}_count", START + 10.0) == [Point(labels(engine="0"), 8.0)]
    assert value(history, f"{TTFT}_sum", START + 10.0) == [Point(labels(engine="0"), 3.5)]
    assert value(history, TTFT, START + 10.0) == []
    quantile = f"histogram_quantile(0.5, sum by (le) (rate({TTFT}_bucket[10s])))"
    assert number(history, quantile, START + 10.0) == pytest.approx(1e-05 + (0.25 - 1e-05) * 4.0 / 6.0)
    assert value(history, f'{TTFT}_bucket{{le="0.25"}}', START + 10.0) == [
        Point(labels(engine="0", le="0.25"), 6.0)
    ]


def test_every_series_of_the_page_is_read_with_the_same_value() -> None:
    history = History()
    read: list[Sample] = []
    for place, metric in enumerate(METRICS.values()):
        for own in (labels(npu="0"), labels(npu="1", server="second")):
            if metric.kind == "histogram":
                bounds = (0.1, 5.0) if place % 2 else (0.005, 2.5, math.inf)
                counts = tuple(float(count + place) for count in range(len(bounds)))
                read.append(Sample(metric.name, Distribution(bounds, counts, 7.25, counts[-1]), START, own))
            else:
                read.append(Sample(metric.name, float(place), START, own))
    history.add(read)
    page = [
        sample
        for family in text_string_to_metric_families(render(history.last_samples()).decode())
        for sample in family.samples
    ]
    readings = HistoryReadings(history)
    assert len(page) > 2 * len(METRICS)
    for sample in page:
        matchers = [Matcher(label, "=", text) for label, text in sample.labels.items()]
        if "server" not in sample.labels:
            matchers.append(Matcher("server", "=", ""))
        (track,) = readings.tracks(sample.name, matchers, START - 300.0, START + 1.0)
        assert (dict(track.labels), track.values) == (sample.labels, [sample.value]), sample.name


def test_the_names_in_use_are_read_too() -> None:
    history = History()
    read = [
        Sample("npu_hbm_bandwidth_usage_ratio", 0.5, START, FIRST),
        Sample("npu_aicore_usage_ratio", 0.25, START, FIRST),
        Sample(WAITING, 7.0, START),
    ]
    history.add(read + legacy_samples(read))
    assert value(history, "npu_mem_bandwidth", START) == [Point(FIRST, 50.0)]
    assert value(history, "npu_sm_activity", START) == [Point(FIRST, 25.0)]
    assert value(history, "vllm_pending_queries > 5", START) == [Point((), 7.0)]


def test_a_series_that_ended_has_no_value_but_its_readings() -> None:
    history = History()
    gauges(history, TEMPERATURE, [80.0, 90.0], FIRST, source="npu")
    history.end("npu")
    assert value(history, TEMPERATURE, START + 2.0) == []
    assert value(history, f"absent({TEMPERATURE})", START + 2.0) == [Point((), 1.0)]
    assert number(history, f"max_over_time({TEMPERATURE}[10s])", START + 2.0) == 90.0
    assert number(history, f"{TEMPERATURE} offset 2s", START + 2.0) == 80.0
    gauges(history, TEMPERATURE, [60.0] * 5, FIRST, source="npu")
    assert number(history, TEMPERATURE, START + 5.0) == 60.0


def test_a_reading_that_its_source_repeats_still_stands() -> None:
    history = History()
    same = Sample(TEMPERATURE, 70.0, START, FIRST)
    for second in range(0, 1000, 50):
        history.add([same, Sample(TEMPERATURE, 50.0, START + second, OTHER)], "slow")
    assert value(history, f'{TEMPERATURE}{{npu="0"}}', START + 955.0) == [Point(FIRST, 70.0)]
    assert number(history, f'min_over_time({TEMPERATURE}{{npu="0"}}[2m])', START + 1000.0) == 70.0
    assert value(history, TEMPERATURE, START + 1400.0) == [], "nor does the page show it any more"


def test_engines_beside_the_tuned_one_are_seen_with_their_label() -> None:
    history = History()
    history.add([Sample(WAITING, 3.0, START), Sample(WAITING, 5.0, START, labels(server="second"))])
    assert number(history, f"sum({WAITING})", START) == 8.0
    assert number(history, f'sum({WAITING}{{server=""}})', START) == 3.0


def test_the_age_of_each_source_is_known_without_being_a_sample() -> None:
    history = History()
    gauges(history, TEMPERATURE, [70.0], FIRST, source="npu-smi")
    stale = "trimtab_sample_age_seconds > 60"
    assert value(history, stale, START + 30.0) == []
    assert value(history, stale, START + 90.0) == [Point(labels(collector="npu-smi"), 90.0)]


def test_samples_that_are_made_when_asked_for_are_read() -> None:
    def present(now: float) -> list[Sample]:
        return [Sample("trimtab_paused", 1.0, now), Sample("trimtab_mode", 0.0, now, labels(mode="act"))]

    readings = HistoryReadings(History(), present)
    assert parse("trimtab_paused == 1").evaluate(readings, START) == [Point((), 1.0)]
    assert parse('trimtab_mode{mode="observe"}').evaluate(readings, START) == []


@pytest.mark.parametrize(
    "name", ["unknown", "unknown_total", "npu_temperature_celsius_sum", "_bucket", "bucket", ""]
)
def test_a_name_that_is_not_known_has_no_series(name: str) -> None:
    history = History()
    gauges(history, TEMPERATURE, [70.0], FIRST)
    assert list(HistoryReadings(history).tracks(name, (), START - 300.0, START)) == []


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("increase(trimtab_notifications_dropped_total[10m]) > 0", "trimtab_notifications_dropped_total"),
        ("trimtab_switches_total - trimtab_switches_total offset 1h > 5", "trimtab_switches_total"),
        (
            "max_over_time(trimtab_paused[1h]) == 1 and on () rate(trimtab_playbook_acts_total[5m]) > 0",
            "trimtab_paused and trimtab_playbook_acts_total",
        ),
    ],
)
def test_what_is_made_when_asked_for_has_no_past(expression: str, names: str) -> None:
    assert without_a_past(parse(expression)) == (
        f"no past is kept of {names}: ask for it without a range and without offset"
    )


@pytest.mark.parametrize(
    "expression",
    [
        "trimtab_restart_active == 1",
        "max_over_time(trimtab_collector_success[6h]) > 0 unless on () trimtab_paused == 1",
        f"{TEMPERATURE} offset 1h > 85",
    ],
)
def test_what_is_there_now_or_in_the_history_may_be_asked_for(expression: str) -> None:
    assert without_a_past(parse(expression)) is None


def test_the_documentation_names_all_that_has_no_past() -> None:
    page = (ROOT / "docs" / "expressions.md").read_text()
    said = page[page.index("These are `trimtab_alerts`") :].split(".\n")[0]
    assert set(re.findall(r"`(\w+)`", said)) == PRESENT_NAMES
