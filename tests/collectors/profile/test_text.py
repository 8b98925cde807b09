"""Tables of msprof and torch_npu: every one that is read, several devices, and damage that costs what it hits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import IO, Any

import pytest

from collectors.profile.gathering import MOST_STEPS
from tests.collectors.profile import captures
from tests.collectors.profile.captures import MIXED, MSPROF, Run, near, only, reading, run_after_run


def test_one_folder_with_two_devices_is_two_profiles(tmp_path: Path) -> None:
    captures.kernels(tmp_path / "op_summary_slice_0_1.csv", MIXED, MSPROF, first="0")
    captures.kernels(tmp_path / "op_summary_slice_1_1.csv", MIXED[:1], MSPROF, first="1")
    assert [(p.label, p.compute_tasks) for p in reading(tmp_path).profiles] == [
        ("device 0", 4),
        ("device 1", 1),
    ]


def test_each_device_gets_its_own_rows_of_the_small_tables(tmp_path: Path) -> None:
    for device in "01":
        captures.kernels(tmp_path / f"op_summary_slice_{device}_1.csv", MIXED, MSPROF, first=device)
    captures.table(
        tmp_path / "memory_record_1.csv",
        ("Component", "Timestamp(us)", "Total Allocated(KB)", "Total Reserved(KB)", "Device"),
        [("PTA", captures.stamp(1), 1.0, 4.0, "NPU:0"), ("PTA", captures.stamp(1), 1.0, 8.0, "NPU:1")],
    )
    found = reading(tmp_path).profiles
    assert [(p.label, p.memory[0].peak_reserved_bytes) for p in found] == [
        ("device 0", 4096),
        ("device 1", 8192),
    ]


def test_entries_of_communication_without_figures_are_counted(tmp_path: Path) -> None:
    entry = {"Communication Time Info": {"Elapse Time(ms)": 1.0}}
    (tmp_path / "communication.json").write_text(json.dumps({"s": {"collective": {"hcom_send__1_2": entry}}}))
    (tmp_path / "communication_matrix.json").write_text(
        json.dumps({"s": {"p2p": {"send": {"0-1": {"Transport Type": "HCCS"}}}}})
    )
    notes = reading(tmp_path).notes
    assert len([note for note in notes if "1 entries without all their figures" in note]) == 2


def test_steps_are_kept_to_a_number_and_that_is_said_once(tmp_path: Path) -> None:
    captures.table(
        tmp_path / "step_trace_time.csv",
        ("Step", "Computing", "Free"),
        [(n, 1.0, 1.0) for n in range(MOST_STEPS + 5)],
    )
    found = reading(tmp_path)
    assert len(found.profiles[0].steps) == MOST_STEPS
    assert len(found.notes) == 1


def test_slices_are_read_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for number, run in enumerate(run_after_run([MIXED[0]] * 12)):
        captures.kernels(tmp_path / f"op_summary_slice_{number}_2026.csv", [run], MSPROF)
    profile = only(tmp_path)
    assert profile.compute_tasks == 12
    assert profile.timeline is not None


def test_the_small_tables_of_a_rank(tmp_path: Path) -> None:
    out = tmp_path / "x_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
    captures.kernels(out / "kernel_details.csv", MIXED)
    captures.steps(out / "step_trace_time.csv", computing=165.5, exposed=40.0, free=240.0, overlapped=3.0)
    captures.communication(out / "communication.json", [30.0, 10.0])
    captures.matrix(
        out / "communication_matrix.json", {"0-1": ("HCCS", 8.0, 0.5), "0-0": ("LOCAL", 8.0, 0.01)}
    )
    captures.table(
        out / "api_statistic.csv",
        ("Level", "API Name", "Time(us)", "Count", "Avg(us)", "Min(us)", "Max(us)", "Variance"),
        [("acl", "aclrtMemcpy", 30.0, 3, 10, 8, 12, 1)],
    )
    captures.table(
        out / "operator_details.csv",
        ("Name", "Input Shapes", "Call Stack", "Host Self Duration(us)", "Device Self Duration(us)"),
        [("aten::mm", "", "a.py(1): f;\nb.py(2): g;", 7.0, 3.0), ("aten::mm", "", "", 5.0, 1.0)],
    )
    captures.table(
        out / "memory_record.csv",
        ("Component", "Timestamp(us)", "Total Allocated(MB)", "Total Reserved(MB)", "Device Type"),
        [("PTA", captures.stamp(n), 6.0 + n, 10.0, "NPU:0") for n in range(3)]
        + [("APP", "x", None, 1.0, "NPU:0")],
    )
    captures.table(
        out / "l2_cache.csv",
        ("Stream Id", "Task Id", "Hit Rate", "Victim Rate", "Op Name"),
        [(2, 100, 0.75, 0.1, MIXED[0].label), (2, 101, None, 0.1, "b"), (9, 9, 0.25, 0.1, "c")],
    )
    (out.parent / "profiler_info_5.json").write_text("{}")
    profile = only(tmp_path)
    assert profile.label == "rank 5"
    (step,) = profile.steps
    assert (step.name, step.computing_seconds, step.overlapped_seconds) == (
        "7",
        near(165.5e-6),
        3e-6,
    )
    (reduce,) = profile.collectives
    assert (reduce.kind, reduce.count, reduce.wait_seconds) == ("hcom_allReduce", 2, near(40e-6))
    (hccs,) = profile.transfers
    assert (hccs.transport, hccs.count, hccs.bytes) == ("HCCS", 8, 20e6)
    assert [(link.source, link.target) for link in profile.links] == [(0, 0), (0, 1)]
    assert profile.links[1].bytes_per_second == near(16e9)
    (call,) = profile.apis
    assert (call.name, call.count, call.seconds, call.longest_seconds) == (
        "aclrtMemcpy", 3, near(30e-6), near(12e-6),
    )  # fmt: skip
    (host,) = profile.host_operators
    assert (host.name, host.count, host.device_seconds) == ("aten::mm", 2, near(4e-6))
    (memory,) = profile.memory
    assert (memory.peak_allocated_bytes, memory.peak_reserved_bytes) == (8 * 1024**2, 10 * 1024**2)
    assert [(hits.length, hits.ratio, hits.count) for hits in profile.l2] == [(None, 0.5, 2), (128, 0.75, 1)]
    assert [note for note in profile.notes if "memory_record" in note and "1 rows" in note]
    assert len(profile.notes) == 1


def hits(folder: Path, rows: list[tuple[object, ...]], *extra: str) -> None:
    captures.table(
        folder / "l2_cache_1.csv",
        (*extra, "Stream Id", "Task Id", "Hit Rate", "Victim Rate", "Op Name"),
        rows,
    )


def test_task_numbers_that_come_round_take_their_hit_ratios_in_turn(tmp_path: Path) -> None:
    runs = [
        Run("MatMulV2", 0, 10.0, inputs=f"{length},64;64,64", name=name)
        for length, name in ((16, "a"), (64, "b"), (256, "a"))
    ]
    captures.kernels(tmp_path / "op_summary_1.csv", runs, MSPROF, first="0")
    text = (tmp_path / "op_summary_1.csv").read_text()
    (tmp_path / "op_summary_1.csv").write_text(text.replace(",101,", ",100,").replace(",102,", ",100,"))
    hits(
        tmp_path,
        [(2, 100, None, 0.1, "a"), (2, 100, 0.25, 0.1, "b"), (2, 100, 0.5, 0.1, "a"), (2, 7, 0.75, 0.1, "c")],
    )
    profile = only(tmp_path)
    assert [(found.length, found.ratio) for found in profile.l2] == [(None, 0.5), (64, 0.25), (256, 0.5)]
    assert profile.label == "device 0"


def test_hit_ratios_of_nobody_knows_which_device_are_left_out_and_said(tmp_path: Path) -> None:
    for device in ("0", "1"):
        captures.kernels(tmp_path / f"op_summary_{device}.csv", MIXED, MSPROF, first=device)
    hits(tmp_path, [(2, 100, 0.75, 0.1, MIXED[0].label), (2, 100, 0.75, 0.1, "x")])
    found = reading(tmp_path)
    assert [(profile.label, profile.l2) for profile in found.profiles] == [("device 0", ()), ("device 1", ())]
    assert any("l2_cache: 2 hit ratios were left out" in note for note in found.notes)
    hits(tmp_path, [(1, 2, 100, 0.75, 0.1, MIXED[0].label)], "Device_id")
    assert [len(profile.l2) for profile in reading(tmp_path).profiles] == [0, 2]


@pytest.mark.parametrize(
    "figure", ["NaN", "Infinity", "-Infinity", "1" * 400, "1e999", "true", "null", '"4"']
)
def test_a_figure_that_is_none_costs_its_entry(tmp_path: Path, figure: str) -> None:
    path = captures.communication(tmp_path / "communication.json", [1.0], packets={"2.5": [4, 31.0]})
    whole = path.read_text()
    path.write_text(whole.replace("[4, 31.0]", f"[{figure}, 31.0]"))
    assert any("1 entries without" in note for note in only(tmp_path).notes)
    path.write_text(whole.replace('"Wait Time(ms)": 0.001', f'"Wait Time(ms)": {figure}'))
    assert any("1 entries without" in note for note in reading(tmp_path).notes)
    captures.matrix(
        tmp_path / "communication_matrix.json", {"0-1": ("HCCS", 8.0, 0.5), "1" * 5000 + "-1": ("a", 1, 1)}
    )
    assert any("communication_matrix.json: 1 entries" in note for note in reading(tmp_path).notes)


def test_msprof_tables_have_kilobytes_copies_and_hbm(tmp_path: Path) -> None:
    out = tmp_path / "PROF_1_2_A" / "mindstudio_profiler_output"
    captures.kernels(out / "op_summary_1.csv", MIXED, MSPROF, first="0")
    captures.table(
        out / "npu_module_mem_1.csv",
        ("Device_id", "Component", "Timestamp(us)", "Total Reserved(KB)", "Device"),
        [(0, "HCCL", captures.stamp(1), 2048.0, "NPU:0")],
    )
    captures.table(
        out / "task_time_1.csv",
        ("Device_id", "kernel_name", "kernel_type", "stream_id", "task_id", "task_time(us)"),
        [(0, "N/A", "MEMCPY_ASYNC", 1, 1, 12.0), (0, "a", "KERNEL_AICORE", 1, 2, 100.0)],
    )
    captures.table(
        out / "hbm_1.csv",
        ("Device_id", "Metric", "Read(MB/s)", "Write(MB/s)"),
        [(0, "Average", 99.0, 99.0), (0, 0, 100.0, 10.0), (0, 1, 200.0, 20.0)],
    )
    profile = only(tmp_path)
    assert profile.memory[0].peak_reserved_bytes == 2048 * 1024
    (copies,) = profile.copies
    assert (copies.count, copies.seconds, copies.bytes) == (1, near(12e-6), None)
    assert profile.hbm is not None
    assert (profile.hbm.read, profile.hbm.write) == (300e6, 30e6)


def test_statistics_stand_in_where_single_tasks_are_not_there(tmp_path: Path) -> None:
    captures.table(
        tmp_path / "op_statistic.csv",
        ("OP Type", "Core Type", "Count", "Total Time(us)", "Min Time(us)", "Avg Time(us)", "Max Time(us)"),
        [("MatMulV2", "AI_CORE", 4, 100.0, 20, 25, 30)],
    )
    profile = only(tmp_path)
    assert (profile.compute_tasks, profile.computing_seconds) == (4, near(100e-6))
    assert profile.timeline is None


def test_one_damaged_file_costs_only_itself(tmp_path: Path) -> None:
    captures.kernels(tmp_path / "kernel_details.csv", MIXED)
    (tmp_path / "step_trace_time.csv").write_bytes(b"\x00\x01\x02")
    (tmp_path / "communication.json").write_text('{"step7": {"collective": ')
    (tmp_path / "communication_matrix.json").write_text("[]")
    (tmp_path / "memory_record.csv").mkdir()
    (tmp_path / "api_statistic.csv").write_text("")
    found = reading(tmp_path)
    assert found.profiles[0].compute_tasks == 4
    for name in ("step_trace_time", "communication.json", "communication_matrix", "api_statistic"):
        assert [note for note in found.notes if name in note], name


def test_a_file_that_may_not_be_opened_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    captures.kernels(tmp_path / "kernel_details.csv", MIXED)
    captures.steps(tmp_path / "step_trace_time.csv", 165.5, 40.0, 240.0)
    opened = Path.open

    def refuse(self: Path, mode: str) -> IO[Any]:
        if self.name == "step_trace_time.csv":
            raise PermissionError(13, "Permission denied", str(self))
        return opened(self, mode)

    monkeypatch.setattr(Path, "open", refuse)
    found = reading(tmp_path)
    assert found.profiles[0].compute_tasks == 4
    assert any("step_trace_time.csv: Permission denied" in note for note in found.notes)


def test_a_huge_json_is_left_out_and_said(tmp_path: Path) -> None:
    captures.kernels(tmp_path / "kernel_details.csv", MIXED)
    with (tmp_path / "communication.json").open("wb") as file:
        file.truncate(200 * 1024 * 1024)
    found = reading(tmp_path)
    assert found.profiles[0].usable
    assert any("DB form" in note for note in found.notes)


def test_the_same_tasks_under_two_names_count_once(tmp_path: Path) -> None:
    captures.kernels(tmp_path / "kernel_details.csv", MIXED)
    captures.kernels(tmp_path / "op_summary_1.csv", MIXED, MSPROF)
    assert only(tmp_path).compute_tasks == 4
