"""Expressions have the values that Prometheus' rules give by hand."""

from __future__ import annotations

import math

import pytest

from collectors.sample import labels
from rules.expression import EvaluationError, parse
from rules.readings import Point
from rules.trace import TraceReadings

NAN = math.nan
TRACE = TraceReadings.from_input_series(
    [
        {"series": 'g{npu="0", node="a"}', "values": "0+10x9"},
        {"series": 'g{npu="1", node="a"}', "values": "90-10x9"},
        {"series": 'limit{npu="0"}', "values": "50x9"},
        {"series": 'limit{npu="1"}', "values": "10x9"},
        {"series": 'short{npu="0"}', "values": "1 2 stale"},
        {"series": "c_total", "values": "5 15 25 3 13 23"},
        {"series": "flat", "values": "4x9"},
        {"series": "wild", "values": "1 NaN NaN 2 2 Inf"},
        {"series": 'lat_bucket{le="1"}', "values": "0+1x9"},
        {"series": 'lat_bucket{le="2"}', "values": "0+3x9"},
        {"series": 'lat_bucket{le="+Inf"}', "values": "0+4x9"},
        {"series": 'lat_bucket{le="big"}', "values": "0+4x9"},
    ],
    interval_seconds=10.0,
)
"""Readings at 0, 10, ... 90 s."""


def value(expression: str, now: float = 90.0) -> dict[str, float]:
    """The elements by their labels, written shortly."""
    found = parse(expression).evaluate(TRACE, now)
    return {",".join(f"{name}={text}" for name, text in point.labels): point.value for point in found}


def number(expression: str, now: float = 90.0) -> float:
    (found,) = value(expression, now).values()
    return found


def test_a_selector_is_the_newest_reading_not_older_than_five_minutes() -> None:
    assert value('g{npu="0"}', 35.0) == {"node=a,npu=0": 30.0}
    assert value("flat", 390.0) == {"": 4.0}
    assert value("flat", 390.001) == {}
    assert value("flat", -1.0) == {}


def test_a_series_that_ended_has_no_value_from_then_on() -> None:
    assert value("short", 19.0) == {"npu=0": 2.0}
    assert value("short", 20.0) == {}
    assert value("max_over_time(short[1m])", 20.0) == {"npu=0": 2.0}


def test_an_offset_looks_at_what_was() -> None:
    assert number('g{npu="0"} offset 30s') == 60.0
    assert number('max_over_time(g{npu="0"}[10s] offset 1m)') == 30.0
    assert value("short offset 80s") == {"npu=0": 2.0}


@pytest.mark.parametrize(
    ("matchers", "npus"),
    [
        ('npu="0"', ["0"]),
        ('npu!="0"', ["1"]),
        ('npu=~"0|1"', ["0", "1"]),
        ('npu=~"[1-9]"', ["1"]),
        ('npu!~"1.*"', ["0"]),
        ('npu=~".*0.+"', []),
        ('rack=""', ["0", "1"]),
        ('rack!=""', []),
        ('node="a",npu=~"1"', ["1"]),
    ],
)
def test_matchers_choose_whole_values(matchers: str, npus: list[str]) -> None:
    found = parse(f"g{{{matchers}}}").evaluate(TRACE, 90.0)
    assert [dict(point.labels)["npu"] for point in found] == npus


def test_the_name_may_stand_among_the_matchers() -> None:
    assert value('{__name__="flat"}') == {"": 4.0}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("1 + 2 * 3", 7.0),
        ("-2 ^ 2", -4.0),
        ("2 ^ 3 ^ 2", 512.0),
        ("7 % -4", 3.0),
        ("-7 % 4", -3.0),
        ("1 / 0", math.inf),
        ("-1 / 0", -math.inf),
        ("0 / 0", NAN),
        ("1 % 0", NAN),
        ("Inf % 2", NAN),
        ("-8 ^ 0.5", -(8**0.5)),
        ("(-8) ^ 0.5", NAN),
        ("1e300 * 1e300", math.inf),
        ("10 ^ 400", math.inf),
        ("NaN == bool NaN", 0.0),
        ("NaN != bool NaN", 1.0),
        ("2 > bool 1", 1.0),
        ("vector(3) - 1", 2.0),
    ],
)
def test_arithmetic_is_that_of_floating_point(expression: str, expected: float) -> None:
    assert number(expression) == pytest.approx(expected, nan_ok=True)


def test_a_comparison_keeps_the_vectors_value_on_either_side() -> None:
    assert value("g > 50") == {"node=a,npu=0": 90.0}
    assert value("50 < g") == {"node=a,npu=0": 90.0}
    assert value("g > bool 50") == {"node=a,npu=0": 1.0, "node=a,npu=1": 0.0}
    assert value("wild == NaN", 20.0) == {}


def test_the_name_goes_where_prometheus_takes_it_away() -> None:
    def named(expression: str) -> bool:
        return any("__name__" in dict(point.labels) for point in parse(expression).named(TRACE, 90.0))

    assert all(map(named, ["flat", "flat > 1", "flat or g", "flat and flat", "last_over_time(flat[1m])"]))
    assert not any(map(named, ["-flat", "flat + 1", "flat > bool 1", "sum(flat)", "max_over_time(flat[1m])"]))
    assert not named("g > on (npu) limit")


def test_vectors_meet_on_the_labels_that_are_named() -> None:
    assert value("g - on (npu) limit") == {"npu=0": 40.0, "npu=1": -10.0}
    assert value("g > ignoring (node) limit") == {"npu=0": 90.0}
    assert value("g > limit") == {}
    assert value("g - ignoring (node) group_left () limit") == {"node=a,npu=0": 40.0, "node=a,npu=1": -10.0}
    assert value("limit + on (npu) group_left (node) g") == {"node=a,npu=0": 140.0, "node=a,npu=1": 10.0}
    assert value("flat - on () group_right () g") == {"node=a,npu=0": -86.0, "node=a,npu=1": 4.0}


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("flat + on () g", "many-to-many"),
        ("g + on () flat", "group_left"),
        ("g + on (node) group_left () limit", "many-to-many"),
        ("g + on () group_left (node, npu) flat", "tell them apart"),
    ],
)
def test_what_does_not_pair_is_an_error(expression: str, words: str) -> None:
    with pytest.raises(EvaluationError, match=words):
        value(expression)


def test_set_operators_look_at_labels_only() -> None:
    assert value("g and on (npu) limit > 20") == {"node=a,npu=0": 90.0}
    assert value("g unless on (npu) (limit > 20)") == {"node=a,npu=1": 0.0}
    assert value("(g > 50) or limit") == {"node=a,npu=0": 90.0, "npu=0": 50.0, "npu=1": 10.0}
    assert value("(g > 50) or on (npu) limit") == {"node=a,npu=0": 90.0, "npu=1": 10.0}


def test_aggregations_group_as_they_say() -> None:
    assert value("sum(g)", 30.0) == {"": 90.0}
    assert value("avg by (node) (g)", 30.0) == {"node=a": 45.0}
    assert value("max without (npu) (g)", 30.0) == {"node=a": 60.0}
    assert value("min by (npu, rack) (g)", 30.0) == {"npu=0": 30.0, "npu=1": 60.0}
    assert value("count(g)", 30.0) == {"": 2.0}
    assert value("sum(gone)") == {}
    assert number("max(wild or on (__name__) flat)", 20.0) == 4.0, "what is no number is never the most"


def test_a_rate_reaches_to_the_ends_of_its_range_but_not_before_zero() -> None:
    # Two readings 10 s apart, 3 s and 7 s from the ends: both ends are reached.
    assert number('increase(g{npu="0"}[20s])', 57.0) == pytest.approx(10.0 * 20.0 / 10.0)
    # The first reading is 5 after 10 per 10 s: zero was 5 s before, further than the range's start goes.
    assert number("increase(c_total[30s])", 20.0) == pytest.approx(20.0 * (20.0 + 5.0) / 20.0)
    assert number("rate(c_total[30s])", 20.0) == pytest.approx(25.0 / 30.0)
    # The last reading is 60 s old: only half of a distance is added there.
    assert number('increase(g{npu="0"}[1m40s])', 150.0) == pytest.approx(40.0 * (40.0 + 0.0 + 5.0) / 40.0)
    assert value("rate(g[5s])", 93.0) == {}


def test_a_counter_that_began_again_is_added_up() -> None:
    # 5 15 25 3 13 23: 20 before, and from zero 23 after.
    assert number("increase(c_total[50s])", 50.0) == pytest.approx(43.0)
    assert number("changes(c_total[50s])", 50.0) == 5.0


def test_a_range_has_the_readings_at_both_of_its_ends() -> None:
    assert number('count_over_time(g{npu="0"}[20s])', 50.0) == 3.0


def test_functions_over_ranges() -> None:
    assert number('avg_over_time(g{npu="0"}[40s])', 40.0) == 20.0
    assert number('min_over_time(g{npu="0"}[20s])', 40.0) == 20.0
    assert number('max_over_time(g{npu="0"}[20s])', 40.0) == 40.0
    assert number('sum_over_time(g{npu="0"}[20s])', 40.0) == 90.0
    assert number('last_over_time(g{npu="0"}[20s])', 45.0) == 40.0
    assert number('quantile_over_time(0.25, g{npu="0"}[30s])', 30.0) == 7.5
    assert number('quantile_over_time(2, g{npu="0"}[30s])', 30.0) == math.inf
    assert number('quantile_over_time(-1, g{npu="0"}[30s])', 30.0) == -math.inf
    assert math.isnan(number('quantile_over_time(NaN, g{npu="0"}[30s])', 30.0))
    assert number('deriv(g{npu="1"}[40s])', 40.0) == -1.0
    assert number("deriv(flat[40s])", 40.0) == 0.0
    assert value("deriv(flat[5s])", 44.0) == {}
    assert number("max_over_time(wild[30s])", 30.0) == 2.0
    assert number("changes(wild[50s])", 50.0) == 3.0
    assert number("changes(flat[50s])", 50.0) == 0.0


def test_absent_has_the_labels_that_were_asked_for_plainly() -> None:
    assert value("absent(flat)") == {}
    assert value('absent(gone{npu="0",node=~"a|b",rack!="1"})') == {"npu=0": 1.0}
    assert value('absent(gone{npu="0",npu="1",node="a"})') == {"node=a": 1.0}
    assert value("absent(sum(gone))") == {"": 1.0}
    assert value("absent(short)") == {"": 1.0}


def test_a_histograms_quantile_is_linear_within_its_bucket() -> None:
    assert number("histogram_quantile(0.5, lat_bucket)") == pytest.approx(1.0 + 1.0 * (18.0 - 9.0) / 18.0)
    assert number("histogram_quantile(0.1, lat_bucket)") == pytest.approx(0.4)
    assert number("histogram_quantile(0.99, rate(lat_bucket[1m]))") == 2.0, "the highest finite bound"
    assert number("histogram_quantile(1.5, lat_bucket)") == math.inf
    assert math.isnan(number("histogram_quantile(0.5, lat_bucket)", 0.0)), "nothing was observed"
    assert math.isnan(number('histogram_quantile(0.5, lat_bucket{le!="+Inf"})'))
    assert value("histogram_quantile(0.5, flat)") == {}


def test_a_scalar_is_one_point_without_labels() -> None:
    assert parse("1 + 1").evaluate(TRACE, 0.0) == [Point((), 2.0)]


def test_a_scalar_is_told_from_a_vector() -> None:
    assert all(parse(text).is_scalar for text in ("1", "-(2 ^ 3)", "1 > bool time()"))
    assert not any(parse(text).is_scalar for text in ("g", "vector(1)", "g + 1", "-g", "sum(g)"))


def test_the_time_is_that_of_the_evaluation() -> None:
    assert parse("time()").evaluate(TRACE, 1_700_000_000.5) == [Point((), 1_700_000_000.5)]
    assert value('time() - limit{npu="0"} > 30', 90.0) == {"npu=0": 40.0}


def test_points_come_without_the_metrics_name() -> None:
    assert parse('limit{npu="0"}').evaluate(TRACE, 0.0) == [Point(labels(npu="0"), 50.0)]


def test_two_elements_with_the_same_labels_are_no_vector() -> None:
    with pytest.raises(EvaluationError, match="same labels"):
        value("-(flat or on (__name__) wild)")


def test_an_expression_knows_what_it_reads_and_how_far_back() -> None:
    expression = parse('rate(a[1h] offset 30m) > on (x) b or absent({__name__="c"})')
    assert expression.names == {"a", "b", "c"}
    assert expression.reach_seconds == 5400.0
    assert parse("a offset 1m").reach_seconds == 360.0
    assert parse("1").reach_seconds == 0.0
