"""One run in its text and its DB form is the same profile; what is there twice is told apart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from collectors.profile.parsed import parsed
from collectors.profile.read import plan, read
from tests.collectors.profile import captures
from tests.collectors.profile.captures import MIXED, MSPROF, OLDER, TORCH, near, only, reading


@pytest.mark.parametrize("form", ["torch", "msprof", "older", "db"])
def test_each_form_and_version_gives_the_same_sums(tmp_path: Path, form: str) -> None:
    match form:
        case "torch":
            captures.kernels(tmp_path / "kernel_details.csv", MIXED, TORCH)
        case "msprof":
            captures.kernels(tmp_path / "op_summary_2026.csv", MIXED, MSPROF, first="3", end="\n")
        case "older":
            captures.kernels(tmp_path / "op_summary_2026.csv", MIXED, OLDER, first="3")
        case _:
            captures.database(tmp_path / "ascend_pytorch_profiler_4.db", MIXED, rank=4)
    profile = only(tmp_path)
    assert profile.compute_tasks == 4
    assert profile.computing_seconds == near(165.5e-6)
    assert profile.communication_task_seconds == near(40e-6)
    product, norm, cast = profile.operators
    assert (product.type, product.count, product.longest_seconds) == ("MatMulV2", 2, near(100e-6))
    assert product.memory_bound_seconds == near(50e-6)
    assert product.compute_bound_seconds == near(100e-6)
    assert product.mte2_seconds == near(95e-6)
    assert norm.memory_bound_seconds == near(10.5e-6)
    assert (cast.type, cast.measured_seconds) == ("Cast", 0.0)
    line = profile.timeline
    assert line is not None
    assert line.computing_seconds == near(165.5e-6)
    assert line.exposed_communication_seconds == near(40e-6)
    assert line.free_seconds == near(240e-6)
    assert line.gap_count == 4
    assert profile.notes == ()


def test_steps_and_tasks_that_disagree_are_said(tmp_path: Path) -> None:
    captures.kernels(tmp_path / "kernel_details.csv", MIXED)
    captures.steps(tmp_path / "step_trace_time.csv", computing=500.0, exposed=0.0, free=0.0)
    assert any("do not cover the same time" in note for note in reading(tmp_path).notes)


def test_a_rank_that_is_there_twice_gets_the_name_of_its_folder(tmp_path: Path) -> None:
    for name in ("before", "after"):
        captures.database(tmp_path / name / "ascend_pytorch_profiler_0.db", MIXED)
    found = reading(tmp_path)
    assert [profile.label for profile in found.profiles] == ["rank 0 in after", "rank 0 in before"]
    assert any("rank 0 is there 2 times" in note for note in found.notes)


def test_a_folder_named_twice_is_read_once(tmp_path: Path) -> None:
    captures.kernels(tmp_path / "a" / "kernel_details.csv", MIXED)
    assert len(reading(tmp_path, tmp_path / "a", tmp_path / "a" / ".." / "a").profiles) == 1


def test_progress_adds_up_to_what_was_planned(tmp_path: Path) -> None:
    captures.kernels(tmp_path / "kernel_details.csv", MIXED)
    captures.communication(tmp_path / "communication.json", [1.0])
    captures.database(tmp_path / "db" / "msprof_1.db", MIXED)
    planned = plan([tmp_path])
    told: list[int] = []
    read(planned, told.append)
    assert sum(told) == planned.size > 0


def test_parsed_is_json_ready_and_says_why_nothing_was_read(tmp_path: Path) -> None:
    captures.kernels(tmp_path / "rank3" / "kernel_details.csv", MIXED)
    found = parsed(tmp_path)
    assert json.dumps(found, allow_nan=False)
    assert (found["error"], found["notes"]) == (None, [])
    assert found["profiles"][0]["rank"] == 3
    assert found["profiles"][0]["hbm"] is None
    nothing = parsed(tmp_path / "no")
    assert nothing["profiles"] == []
    assert "no such file" in nothing["error"]
