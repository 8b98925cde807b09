"""A page tells whose it is, and only its own names are read of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.vllm_page import vllm_page
from collectors.engines.kinds import KINDS, kind_of, read_page
from collectors.metrics import METRICS
from collectors.prometheus_text import PageError
from tests.prepare import ROOT

FIXTURES = ROOT / "tests" / "collectors" / "fixtures"
PAGES = [(kind, path) for kind in KINDS for path in sorted((FIXTURES / kind).glob("*.prom"))]


@pytest.mark.parametrize(("kind", "path"), PAGES, ids=lambda value: getattr(value, "stem", value))
def test_the_kind_is_told_by_the_page(kind: str, path: Path) -> None:
    text = path.read_text()
    assert kind_of(text) == kind
    page = read_page(text, 1.0)
    assert page.kind == kind and page.samples
    assert page.samples == read_page(text, 1.0, page.kind).samples


def test_samples_alone_tell_the_kind_where_the_spelling_is_the_other_one() -> None:
    text = "\n".join(line for line in vllm_page(prefix="vllm_").splitlines() if line[0] != "#") + "\n"
    assert kind_of(text) == "vllm"


@pytest.mark.parametrize("text", ["", "\n", "<html>\n", "process_start_time_seconds 1\n", "not_vllm:x 1\n"])
def test_a_page_of_no_kind_says_what_to_check_of_each(text: str) -> None:
    with pytest.raises(PageError, match=r"--disable-log-stats.*--enable-metrics.*MIES_SERVICE_MONITOR_MODE"):
        read_page(text, 1.0)


@pytest.mark.parametrize("name", KINDS)
def test_a_table_names_what_there_is_and_each_name_once(name: str) -> None:
    kind = next(kind for kind in KINDS.values() if kind.name == name)
    rows = [(family.canonical, family.fixed) for family in kind.families]
    assert len(rows) == len(set(rows))
    for family in kind.families:
        metric = METRICS[family.canonical]
        assert {label for label, _ in family.fixed} <= set(metric.labels)
    assert {*kind.labels.values()} <= {"engine", "model", "reason"}


@given(st.data())
def test_no_damage_to_a_page_is_more_than_a_refusal_or_fewer_series(data: st.DataObject) -> None:
    kind, path = data.draw(st.sampled_from(PAGES))
    lines = path.read_text().splitlines(keepends=True)
    at = data.draw(st.integers(0, len(lines) - 1))
    damage = data.draw(st.sampled_from(["drop", "cut", "garbage", "twice", "nan"]))
    line = lines[at]
    lines[at : at + 1] = {
        "drop": [],
        "cut": [line[: len(line) // 2]],
        "garbage": [data.draw(st.text(max_size=30)) + "\n"],
        "twice": [line, line],
        "nan": [line.rpartition(" ")[0] + " NaN\n"],
    }[damage]
    try:
        page = read_page("".join(lines), 1.0)
    except PageError:
        return
    whole = {(s.name, s.labels) for s in read_page(path.read_text(), 1.0).samples}
    if damage != "garbage":
        assert page.kind == kind
    if damage in ("drop", "twice"):
        # What one line less says is what the page said, or another spelling or rank of it.
        assert {(s.name, s.labels) for s in page.samples} <= whole
