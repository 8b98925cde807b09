"""The scrape benchmark measures what it says, and the needed part is much cheaper than the whole page."""

from __future__ import annotations

import json

import pytest

from bench.scrape_cost import main, measure
from bench.vllm_page import vllm_page


def test_the_needed_families_cost_less_than_half_of_the_page() -> None:
    found = measure(vllm_page(), repeats=7)
    assert found["page_samples"] > 400
    assert 140 < found["needed_samples"] < found["page_samples"]
    assert found["needed_first_ms"] < found["whole_page_ms"] / 2
    assert found["needed_ms"] < found["whole_page_ms"] / 2


def test_prints_a_table_or_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "ours, needed families" in capsys.readouterr().out
    assert main(["--json"]) == 0
    assert json.loads(capsys.readouterr().out)["needed_ms"] > 0
