"""A pasted page comes back as plain values, with what was not read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.vllm_page import vllm_page
from collectors.engines.kinds import KINDS
from collectors.engines.paste import LISTED_NAMES, describe_page
from tests.prepare import ROOT

FIXTURES = ROOT / "tests" / "collectors" / "fixtures"
PAGES = [path for kind in KINDS for path in sorted((FIXTURES / kind).glob("*.prom"))]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_is_told_in_plain_values(path: Path) -> None:
    found = json.loads(json.dumps(describe_page(path.read_text()), allow_nan=False))
    assert found["error"] is None
    assert found["samples"] and {"name", "labels", "value", "unit"} == set(found["samples"][0])


def test_a_histogram_has_its_open_bound_in_words() -> None:
    found = json.loads(json.dumps(describe_page(vllm_page())))
    steps = next(s for s in found["samples"] if s["name"] == "trimtab_engine_step_tokens")
    assert steps["value"]["bounds"][-1] == "+Inf"
    assert len(steps["value"]["bounds"]) == len(steps["value"]["counts"])


def test_what_is_not_read_is_listed_and_the_rest_counted() -> None:
    page = "vllm:num_requests_running 1\n" + "".join(
        f"vllm:made_up_{at} 1\n" for at in range(LISTED_NAMES + 3)
    )
    (note,) = json.loads(json.dumps(describe_page(page)))["notes"]
    assert note.startswith("not read: vllm:made_up_0, ") and note.endswith("made_up_19 and 3 more")


def test_a_histogram_that_is_not_read_is_listed_once() -> None:
    page = (
        "vllm:num_requests_running 1\n"
        'vllm:made_up_bucket{le="+Inf"} 1\nvllm:made_up_sum 1\nvllm:made_up_count 1\n'
    )
    assert describe_page(page)["notes"] == ["not read: vllm:made_up"]


def test_a_paste_without_its_last_line_feed_is_read() -> None:
    found = describe_page("vllm:num_requests_running 1")
    assert found["error"] is None and found["samples"]
    assert found["notes"] == ["the last line has no line feed, as in a paste: it was taken as whole"]


@pytest.mark.parametrize("text", ["", "hello", "vllm:num_requests_running"])
def test_something_else_is_an_error(text: str) -> None:
    found = describe_page(text)
    assert found["samples"] == [] and found["error"]


@given(st.text(max_size=300))
def test_no_paste_breaks_it(text: str) -> None:
    json.dumps(describe_page(text))
