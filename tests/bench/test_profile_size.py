"""A profile of any size takes bounded memory to analyse: ten times the tasks do not take more."""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Callable

import pytest

from bench.profile_size import HEADINGS, LIMIT_BYTES, MEGABYTE, main, op_summary, run


def test_memory_does_not_grow_with_the_profile(say: Callable[[str], None]) -> None:
    small, large = run(2, seed=1), run(20, seed=1)
    assert large["tasks"] > 9 * small["tasks"]
    growth = large["peak_rss_bytes"] - small["peak_rss_bytes"]
    say(
        f"op_summary of 20 MB: {large['seconds']:.1f} s, peak RSS {large['peak_rss_bytes'] / MEGABYTE:.0f} MB, "
        f"{growth / MEGABYTE:+.1f} MB beside one of 2 MB"
    )
    # At this rate 500 MB would take under 28 times the growth more, which leaves them below the limit.
    assert growth < 8 * MEGABYTE
    assert large["peak_rss_bytes"] + 27 * max(growth, 0) < LIMIT_BYTES


def test_the_table_is_whole_and_the_same_for_a_seed() -> None:
    lines = list(itertools.islice(op_summary(7), 300))
    assert lines == list(itertools.islice(op_summary(7), 300))
    assert lines != list(itertools.islice(op_summary(8), 300))
    assert {len(row) for row in csv.reader(lines)} == {HEADINGS.count(",") + 1}


def test_prints_figures_or_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--megabytes", "0.2"]) == 0
    assert "peak RSS" in capsys.readouterr().out
    assert main(["--megabytes", "0.2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["operator_types"] >= 5
