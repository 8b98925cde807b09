"""Traces are read as promtool reads the series of its unit tests."""

from __future__ import annotations

import math
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.sample import labels
from rules.readings import Matcher
from rules.trace import Recorded, TraceError, TraceReadings, read_series, read_values

GONE = None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 2.5 -3 +4 1e3 .5", [1.0, 2.5, -3.0, 4.0, 1000.0, 0.5]),
        ("0+10x3", [0.0, 10.0, 20.0, 30.0]),
        ("-1-2x2", [-1.0, -3.0, -5.0]),
        ("5x2", [5.0, 5.0, 5.0]),
        ("5x0", [5.0]),
        ("1 _ 2", [1.0, (), 2.0]),
        ("1 _x3 2", [1.0, (), (), (), 2.0]),
        ("1 stale 2", [1.0, GONE, 2.0]),
        ("Inf -Inf 0x3", [math.inf, -math.inf, 0.0, 0.0, 0.0, 0.0]),
        ("", []),
        ("  1\n 2 ", [1.0, 2.0]),
    ],
)
def test_values_are_written_shortly(text: str, expected: list[float | tuple[()] | None]) -> None:
    assert read_values(text) == expected


def test_what_is_no_number_is_a_value() -> None:
    (value,) = read_values("NaN")
    assert isinstance(value, float) and math.isnan(value)


@pytest.mark.parametrize(
    "text", ["one", "1,2", "1+", "1+x3", "_x", "x3", "{{schema:1}}", "1x99999999999", "1x٣", "stalex3"]
)
def test_what_is_no_value_is_refused(text: str) -> None:
    with pytest.raises(TraceError):
        read_values(text)


def test_a_trace_has_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TraceError, match="1000000 values"):
        read_values("1x1000000")
    monkeypatch.setattr("rules.trace.MOST_VALUES", 100)
    with pytest.raises(TraceError, match="values of a1: more than 100 values"):
        TraceReadings.from_input_series([{"series": f"a{n}", "values": "1x90"} for n in range(2)], 1.0)


@pytest.mark.parametrize("text", ["", "a{", "a + b", 'a{b=~"c"}', "a[5m]", "a offset 5m", "1", 'a{b="c"'])
def test_what_is_no_series_is_refused(text: str) -> None:
    with pytest.raises(TraceError, match="series"):
        read_series(text)


def test_a_series_is_a_name_with_labels() -> None:
    assert read_series('x{npu="0", node="a b", none=""}') == ("x", labels(npu="0", node="a b"))
    assert read_series("x") == ("x", ())


@pytest.mark.parametrize(
    "given", [{}, {"series": "a"}, {"series": 1, "values": "1"}, {"series": "a", "values": None}]
)
def test_what_is_missing_is_named(given: dict[str, object]) -> None:
    with pytest.raises(TraceError, match="input_series 1"):
        TraceReadings.from_input_series([given], 10.0)


def test_readings_are_those_after_the_start_and_not_after_the_end() -> None:
    trace = TraceReadings.from_input_series([{"series": 'a{b="1"}', "values": "0+1x5"}], 10.0, start=100.0)
    (track,) = trace.tracks("a", (Matcher("b", "=", "1"),), 110.0, 130.0)
    assert (track.times, track.values, track.ended) == ([120.0, 130.0], [2.0, 3.0], False)
    assert trace.end == 150.0
    assert not list(trace.tracks("a", (Matcher("b", "=", "2"),), 110.0, 130.0))
    assert not list(trace.tracks("b", (), 110.0, 130.0))


def test_a_series_ends_at_its_mark_and_begins_again_with_its_next_reading() -> None:
    trace = TraceReadings.from_input_series([{"series": "a", "values": "1 stale _ 4"}], 10.0)
    ended = {now: next(iter(trace.tracks("a", (), -1.0, now))).ended for now in (0.0, 9.0, 10.0, 29.0, 30.0)}
    assert ended == {0.0: False, 9.0: False, 10.0: True, 29.0: True, 30.0: False}


def test_times_rise() -> None:
    with pytest.raises(TraceError, match="rise"):
        TraceReadings([Recorded("a", (), [0.0, 0.0], [1.0, 2.0])])
    with pytest.raises(TraceError, match="2 times, 1 values"):
        TraceReadings([Recorded("a", (), [0.0, 1.0], [1.0])])


@given(st.text(alphabet="0123456789+-x_. staleINFnaf\n", max_size=40))
def test_any_text_is_values_or_refused(text: str) -> None:
    with suppress(TraceError):
        read_values(text, 5000)
