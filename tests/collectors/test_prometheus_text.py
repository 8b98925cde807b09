"""The text parser agrees with prometheus_client on whole pages, and takes no part of a page that is cut off."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from bench.vllm_page import vllm_page
from collectors.engines.vllm import VLLM
from collectors.prometheus_text import PageError, PageParser, Point
from collectors.sample import Distribution, labels

INF = math.inf
HISTOGRAM = """\
# HELP wait_seconds Waiting.
# TYPE wait_seconds histogram
wait_seconds_bucket{le="0.1",who="a"} 1
wait_seconds_bucket{le="+Inf",who="a"} 3
wait_seconds_sum{who="a"} 4.5
wait_seconds_count{who="a"} 3
"""


def parse(text: str, scalar: str = "up") -> list[Point]:
    return PageParser({scalar: "scalar", "wait_seconds": "histogram"}).parse(text)


def test_reads_a_scalar_with_and_without_labels() -> None:
    assert parse('up 1\nup{who="b",a="1"} 2.5e3\n') == [
        Point("up", (), 1.0),
        Point("up", labels(who="b", a="1"), 2500.0),
    ]


def test_puts_a_histogram_together() -> None:
    assert parse(HISTOGRAM) == [
        Point("wait_seconds", labels(who="a"), Distribution((0.1, INF), (1.0, 3.0), 4.5, 3.0))
    ]


def test_buckets_may_come_in_any_order() -> None:
    head, *lines = HISTOGRAM.splitlines()
    assert parse("\n".join([head, *reversed(lines)]) + "\n") == parse(HISTOGRAM)


def test_lines_of_other_families_are_not_looked_at() -> None:
    assert parse('other{broken 1\nup_total 7\nupper{a="b"} x\n# anything\n\nup 3\n') == [Point("up", (), 3.0)]


def test_blanks_where_writers_seldom_put_them() -> None:
    text = '  up {a="1" , b="2",}  4\nup\t5\n'
    assert parse(text) == [Point("up", labels(a="1", b="2"), 4.0), Point("up", (), 5.0)]


def test_escapes_and_braces_in_label_values() -> None:
    [point] = parse('up{a="x\\"y\\\\z\\nw{}, b=\\"1\\"",c="#"} 1\n')
    assert dict(point.labels) == {"a": 'x"y\\z\nw{}, b="1"', "c": "#"}


def test_a_time_stamp_is_milliseconds() -> None:
    assert parse("up 1 1700000000250\n") == [Point("up", (), 1.0, 1700000000.25)]


def test_special_values() -> None:
    points = parse('up{a="1"} +Inf\nup{a="2"} -Inf\nup{a="3"} NaN\n')
    assert [point.value for point in points[:2]] == [INF, -INF]
    assert math.isnan(float(str(points[2].value)))


@pytest.mark.parametrize(
    "line",
    [
        "up",
        "up ",
        "up one",
        "up 1_0",
        "up 0x10",
        "up 1 2 3",
        "up 1 now",
        'up{a="1" 2',
        "up{a=1} 2",
        'up{a="1",a="2"} 2',
        'up{a="1"b="2"} 2',
        'up{="1"} 2',
        'up{a="1"}',
        'wait_seconds_bucket{who="a"} 1',
        'wait_seconds_bucket{le="x"} 1',
        'wait_seconds_bucket{le="NaN"} 1',
    ],
)
def test_a_needed_line_that_cannot_be_read_is_an_error(line: str) -> None:
    with pytest.raises(PageError, match="line 2"):
        parse(f"other 1\n{line}\n")


@pytest.mark.parametrize("part", HISTOGRAM.splitlines()[3:])
def test_a_histogram_that_lacks_a_part_is_an_error(part: str) -> None:
    with pytest.raises(PageError, match="cut off: the histogram wait_seconds"):
        parse(HISTOGRAM.replace(part + "\n", ""))


@pytest.mark.parametrize("line", [*HISTOGRAM.splitlines()[2:], 'up{who="a"} 1'])
def test_a_line_that_stands_twice_is_an_error(line: str) -> None:
    with pytest.raises(PageError, match="line"):
        parse(HISTOGRAM + 'up{who="a"} 1\n' + line + "\n")


@pytest.mark.parametrize("text", ["", "up 1", "up 1\nup{a=", HISTOGRAM[:-1]])
def test_a_page_that_does_not_end_with_a_line_feed_is_cut_off(text: str) -> None:
    with pytest.raises(PageError, match="cut off"):
        parse(text)


def _flat(points: list[Point]) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    found: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    for point in points:
        if not isinstance(point.value, Distribution):
            found[point.family, frozenset(point.labels)] = point.value
            continue
        for bound, count in zip(point.value.bounds, point.value.counts, strict=True):
            found[point.family + "_bucket", frozenset([*point.labels, ("le", str(bound))])] = count
        found[point.family + "_sum", frozenset(point.labels)] = point.value.sum
        found[point.family + "_count", frozenset(point.labels)] = point.value.count
    return found


@pytest.mark.parametrize("engines", [1, 3])
@pytest.mark.parametrize("prefix", ["vllm:", "vllm_"])
def test_agrees_with_prometheus_client_on_a_whole_page(engines: int, prefix: str) -> None:
    text = vllm_page(seed=3, engines=engines, prefix=prefix)
    ours = _flat(PageParser(VLLM.wanted()).parse(text))
    theirs: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            pairs = {**sample.labels}
            if "le" in pairs:
                pairs["le"] = str(float(pairs["le"]))
            theirs[sample.name, frozenset(pairs.items())] = sample.value
    assert len(ours) == 241 * engines + 2  # and of the one process its start time and what it answered
    assert all(theirs[key] == value for key, value in ours.items())


PAGE = vllm_page(seed=5)
PAGE_POINTS = {(point.family, point.labels): point for point in PageParser(VLLM.wanted()).parse(PAGE)}


@given(st.integers(0, len(PAGE) - 1))
@settings(max_examples=150, deadline=None)
def test_a_page_cut_anywhere_is_an_error_or_has_only_true_figures(at: int) -> None:
    try:
        points = PageParser(VLLM.wanted()).parse(PAGE[:at])
    except PageError:
        return
    assert all(PAGE_POINTS[point.family, point.labels] == point for point in points)


@given(st.lists(st.tuples(st.integers(0, len(PAGE) - 1), st.sampled_from('x"{}\\,= \t0\n\x00é')), max_size=6))
@settings(max_examples=150, deadline=None)
def test_a_damaged_page_raises_nothing_but_the_declared_error(damage: list[tuple[int, str]]) -> None:
    text = list(PAGE)
    for at, char in damage:
        text[at] = char
    try:
        PageParser(VLLM.wanted()).parse("".join(text))
    except PageError:
        return


_names = st.from_regex(r"[a-z_][a-z0-9_]{0,6}", fullmatch=True).filter(lambda name: name != "le")
_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@given(
    st.dictionaries(
        st.dictionaries(_names, _texts, max_size=3).map(lambda d: tuple(sorted(d.items()))), st.floats()
    )
)
@settings(max_examples=100, deadline=None)
def test_reads_back_any_labels_and_values(series: dict[tuple[tuple[str, str], ...], float]) -> None:
    def escaped(value: str) -> str:
        return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')

    lines = [
        "up"
        + ("{" + ",".join(f'{key}="{escaped(text)}"' for key, text in pairs) + "}" if pairs else "")
        + f" {value}"
        for pairs, value in series.items()
    ]
    points = parse("\n".join(lines) + "\n")
    assert [point.labels for point in points] == list(series)
    for point, value in zip(points, series.values(), strict=True):
        assert point.value == value or math.isnan(value)
