"""Captures are found in every layout, and what cannot be used is named with its mend."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectors.profile.find import find


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")
    return path


def test_the_layout_of_torch_npu(tmp_path: Path) -> None:
    run = tmp_path / "node_1_20260102_ascend_pt"
    touch(run / "ASCEND_PROFILER_OUTPUT" / "kernel_details.csv")
    touch(run / "profiler_info_6.json")
    touch(run / "PROF_000001_2026_ABC" / "device_0" / "data" / "raw.bin")
    found = find(tmp_path)
    (capture,) = found.captures
    assert (capture.form, capture.rank, capture.source) == ("text", 6, run / "ASCEND_PROFILER_OUTPUT")
    assert found.notes == []


def test_the_layout_of_msprof_prefers_the_database_and_keeps_the_tables(tmp_path: Path) -> None:
    run = tmp_path / "PROF_000001_20260102_ABCDEF"
    touch(run / "device_4" / "data" / "raw.bin")
    touch(run / "msprof_20260102.db")
    for number in (10, 2, 0):
        touch(run / "mindstudio_profiler_output" / f"op_summary_slice_{number}_20260102.csv")
    (capture,) = find(tmp_path).captures
    assert (capture.form, capture.device) == ("db", "4")
    assert capture.instead is not None
    assert [path.name for path in capture.instead.files] == [
        f"op_summary_slice_{number}_20260102.csv" for number in (0, 2, 10)
    ]


def test_what_only_sums_up_does_not_hide_the_tables(tmp_path: Path) -> None:
    touch(tmp_path / "kernel_details.csv")
    touch(tmp_path / "analysis.db")
    found = find(tmp_path)
    assert [capture.form for capture in found.captures] == ["text"]
    assert any("analysis.db: left out" in note for note in found.notes)
    (tmp_path / "kernel_details.csv").unlink()
    assert [capture.form for capture in find(tmp_path).captures] == ["db"]


def test_a_plain_folder_and_a_single_file(tmp_path: Path) -> None:
    table = touch(tmp_path / "rank12" / "op_summary_3.csv")
    for path in (tmp_path, table.parent, table):
        (capture,) = find(path).captures
        assert (capture.rank, capture.files) == (12, (table,))
    (capture,) = find(touch(tmp_path / "other" / "ascend_pytorch_profiler_9.db")).captures
    assert (capture.form, capture.rank) == ("db", 9)


@pytest.mark.parametrize(
    ("name", "mend"),
    [("PROF_000001_20260102_ABC", "msprof --export=on"), ("node_1_ascend_pt", "torch_npu.profiler")],
)
def test_raw_data_is_named_with_how_to_export_it(tmp_path: Path, name: str, mend: str) -> None:
    touch(tmp_path / name / "device_0" / "data" / "raw.bin")
    found = find(tmp_path)
    assert found.captures == []
    assert len(found.notes) == 1
    assert mend in found.notes[0]


def test_nothing_there_says_what_was_expected(tmp_path: Path) -> None:
    assert "no such file" in find(tmp_path / "no").notes[0]
    assert "kernel_details.csv" in find(tmp_path).notes[0]
    assert "name its folder" in find(touch(tmp_path / "notes.txt")).notes[0]


def test_a_ring_of_links_is_not_followed(tmp_path: Path) -> None:
    touch(tmp_path / "a" / "kernel_details.csv")
    (tmp_path / "a" / "again").symlink_to(tmp_path)
    assert len(find(tmp_path).captures) == 1


def test_an_export_that_was_made_again_counts_once(tmp_path: Path) -> None:
    for name in (
        "op_summary_20260102030405.csv",
        "op_summary_slice_0_20260102040506.csv",
        "op_summary_slice_1_20260102040506.csv",
        "api_statistic_20260102030405.csv",
        "op_summary_0_1.csv",
    ):
        touch(tmp_path / name)
    found = find(tmp_path)
    (capture,) = found.captures
    assert {path.name for path in capture.files} == {
        "op_summary_slice_0_20260102040506.csv",
        "op_summary_slice_1_20260102040506.csv",
        "api_statistic_20260102030405.csv",
        "op_summary_0_1.csv",
    }
    assert len(found.notes) == 1
    assert "op_summary_20260102030405.csv: left out, there is a newer export" in found.notes[0]


def test_databases_of_several_ranks_in_one_folder_are_several_captures(tmp_path: Path) -> None:
    for rank in (3, 11):
        touch(tmp_path / f"ascend_pytorch_profiler_{rank}.db")
    touch(tmp_path / "analysis.db")
    found = find(tmp_path)
    assert sorted((capture.rank, capture.files[0].name) for capture in found.captures) == [
        (3, "ascend_pytorch_profiler_3.db"),
        (11, "ascend_pytorch_profiler_11.db"),
    ]
    assert "analysis.db: left out" in found.notes[0]
