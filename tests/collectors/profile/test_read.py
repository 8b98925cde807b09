"""One run in its text and its DB form is the same profile; damage costs what it hits and is said."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random
from typing import IO, Any

import pytest

from collectors.profile.gathering import MOST_STEPS
from collectors.profile.model import RankProfile
from collectors.profile.parsed import parsed
from collectors.profile.read import Reading, plan, read
from tests.collectors.profile import captures
from tests.collectors.profile.captures import MSPROF, OLDER, TORCH, Run, near, run_after_run

RUNS = run_after_run(
    [
        Run("MatMulV2", 0, 100.0, mac=0.9, mte2=0.6),
        Run("MatMulV2", 0, 50.0, mac=0.2, mte2=0.7),
        Run("AddRmsNorm", 0, 10.5, core="AI_VECTOR_CORE", mac=None, vec=0.3, mte2=0.8, inputs="128,4096"),
        Run("hcom_allReduce_", 0, 40.0, core="HCCL", inputs=None, outputs=None, mac=None, vec=None, mte2=None,
            name="hcom_allReduce__77_0_1"),
        Run("Cast", 0, 5.0, core="AI_CPU", mac=None, vec=None, mte2=None),
    ],
    gap_us=60.0,
)  # fmt: skip


def reading(*paths: Path) -> Reading:
    return read(plan(paths))


def only(path: Path) -> RankProfile:
    (profile,) = reading(path).profiles
    return profile


@pytest.mark.parametrize("form", ["torch", "msprof", "older", "db"])
def test_each_form_and_version_gives_the_same_sums(tmp_path: Path, form: str) -> None:
    match form:
        case "torch":
            captures.kernels(tmp_path / "kernel_details.csv", RUNS, TORCH)
        case "msprof":
            captures.kernels(tmp_path / "op_summary_2026.csv", RUNS, MSPROF, first="3", end="\n")
        case "older":
            captures.kernels(tmp_path / "op_summary_2026.csv", RUNS, OLDER, first="3")
        case _:
            captures.database(tmp_path / "ascend_pytorch_profiler_4.db", RUNS, rank=4)
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


def test_the_database_names_rank_device_and_chip(tmp_path: Path) -> None:
    profile = only(captures.database(tmp_path / "msprof_1.db", RUNS, rank=4))
    assert (profile.rank, profile.device, profile.chip, profile.label) == (4, "3", "Ascend910B3", "rank 4")


def test_msprof_alone_knows_no_rank(tmp_path: Path) -> None:
    profile = only(captures.database(tmp_path / "msprof_1.db", RUNS, rank=-1))
    assert (profile.rank, profile.label) == (None, "device 3")


def test_one_folder_with_two_devices_is_two_profiles(tmp_path: Path) -> None:
    captures.kernels(tmp_path / "op_summary_slice_0_1.csv", RUNS, MSPROF, first="0")
    captures.kernels(tmp_path / "op_summary_slice_1_1.csv", RUNS[:1], MSPROF, first="1")
    assert [(p.label, p.compute_tasks) for p in reading(tmp_path).profiles] == [
        ("device 0", 4),
        ("device 1", 1),
    ]


def test_each_device_gets_its_own_rows_of_the_small_tables(tmp_path: Path) -> None:
    for device in "01":
        captures.kernels(tmp_path / f"op_summary_slice_{device}_1.csv", RUNS, MSPROF, first=device)
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
    for number, run in enumerate(run_after_run([RUNS[0]] * 12)):
        captures.kernels(tmp_path / f"op_summary_slice_{number}_2026.csv", [run], MSPROF)
    profile = only(tmp_path)
    assert profile.compute_tasks == 12
    assert profile.timeline is not None


def test_the_small_tables_of_a_rank(tmp_path: Path) -> None:
    out = tmp_path / "x_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
    captures.kernels(out / "kernel_details.csv", RUNS)
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
        [(2, 100, 0.75, 0.1, "a"), (2, 101, None, 0.1, "b"), (9, 9, 0.25, 0.1, "c")],
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


def test_msprof_tables_have_kilobytes_copies_and_hbm(tmp_path: Path) -> None:
    out = tmp_path / "PROF_1_2_A" / "mindstudio_profiler_output"
    captures.kernels(out / "op_summary_1.csv", RUNS, MSPROF, first="0")
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


def test_steps_and_tasks_that_disagree_are_said(tmp_path: Path) -> None:
    captures.kernels(tmp_path / "kernel_details.csv", RUNS)
    captures.steps(tmp_path / "step_trace_time.csv", computing=500.0, exposed=0.0, free=0.0)
    assert any("do not cover the same time" in note for note in reading(tmp_path).notes)


def test_one_damaged_file_costs_only_itself(tmp_path: Path) -> None:
    captures.kernels(tmp_path / "kernel_details.csv", RUNS)
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
    captures.kernels(tmp_path / "kernel_details.csv", RUNS)
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
    captures.kernels(tmp_path / "kernel_details.csv", RUNS)
    with (tmp_path / "communication.json").open("wb") as file:
        file.truncate(200 * 1024 * 1024)
    found = reading(tmp_path)
    assert found.profiles[0].usable
    assert any("DB form" in note for note in found.notes)


def test_nothing_is_written_beside_a_database_even_with_a_log(tmp_path: Path) -> None:
    path = captures.database(tmp_path / "msprof_1.db", RUNS)
    with closing(sqlite3.connect(path)) as base:
        base.execute("PRAGMA journal_mode=WAL")
    (tmp_path / "msprof_1.db-wal").write_bytes(b"log")
    before = sorted(tmp_path.iterdir())
    found = reading(tmp_path)
    assert found.profiles[0].compute_tasks == 4
    assert sorted(tmp_path.iterdir()) == before
    assert any("-wal: what the profiler wrote there last was not read" in note for note in found.notes)


@pytest.mark.parametrize("damage", ["not a database", "cut", "empty", "no tables", "other columns"])
def test_a_database_that_cannot_be_read_is_said_and_the_tables_stand_in(tmp_path: Path, damage: str) -> None:
    run = tmp_path / "PROF_1_2_A"
    path = captures.database(run / "msprof_1.db", RUNS)
    captures.kernels(run / "mindstudio_profiler_output" / "op_summary_1.csv", RUNS, MSPROF)
    match damage:
        case "not a database":
            path.write_bytes(b"x" * 5000)
        case "cut":
            path.write_bytes(path.read_bytes()[:5000])
        case "empty":
            path.write_bytes(b"")
        case "no tables":
            path.unlink()
            sqlite3.connect(path).close()
        case _:
            path.unlink()
            with closing(sqlite3.connect(path)) as base:
                base.execute("CREATE TABLE TASK (a INTEGER)")
                base.execute("CREATE TABLE COMPUTE_TASK_INFO (b INTEGER)")
    found = reading(tmp_path)
    (profile,) = found.profiles
    assert profile.compute_tasks == 4
    assert profile.form == "text"
    assert any("msprof_1.db" in note for note in found.notes)


def test_a_database_without_pipes_or_communication_is_read(tmp_path: Path) -> None:
    path = captures.database(tmp_path / "msprof_1.db", RUNS, pipes=False)
    with closing(sqlite3.connect(path)) as base:
        base.execute("DROP TABLE TASK_PMU_INFO")
        base.execute("DROP TABLE COMMUNICATION_OP")
    profile = only(path)
    assert profile.computing_seconds == near(165.5e-6)
    assert all(operator.measured_seconds == 0 for operator in profile.operators)


def test_what_the_databases_sum_up(tmp_path: Path) -> None:
    captures.database(tmp_path / "ascend_pytorch_profiler_2.db", RUNS, rank=2)
    with closing(sqlite3.connect(tmp_path / "analysis.db")) as base:
        base.executescript("""
            CREATE TABLE StepTraceTime (step TEXT, computing NUMERIC, communication_not_overlapped NUMERIC,
                overlapped NUMERIC, communication NUMERIC, free NUMERIC, stage NUMERIC);
            INSERT INTO StepTraceTime VALUES ('7', 165.5, 40, 3, 43, 240, 445.5);
            CREATE TABLE CommAnalyzerTime (hccl_op_name TEXT, elapse_time NUMERIC, transit_time NUMERIC,
                wait_time NUMERIC, idle_time NUMERIC);
            INSERT INTO CommAnalyzerTime VALUES ('hcom_allReduce__77_0_1', 0.04, 0.01, 0.02, 0.01);
            CREATE TABLE CommAnalyzerBandwidth (hccl_op_name TEXT, transport_type TEXT, package_size NUMERIC,
                count NUMERIC, total_duration NUMERIC);
            INSERT INTO CommAnalyzerBandwidth VALUES ('hcom_allReduce__77_0_1', 'HCCS', 0.5, 4, 0.01);
            INSERT INTO CommAnalyzerBandwidth VALUES ('hcom_allReduce__77_0_1', 'SDMA', 0.5, 4, 0.01);
            CREATE TABLE CommAnalyzerMatrix (src_rank TEXT, dst_rank TEXT, transport_type TEXT,
                transit_size NUMERIC, transit_time NUMERIC);
            INSERT INTO CommAnalyzerMatrix VALUES ('2', '3', 'HCCS', 2.0, 0.1);
        """)
    profile = only(tmp_path)
    assert profile.steps[0].overlapped_seconds == near(3e-6)
    assert profile.steps[0].preparing_seconds is None
    assert profile.collectives[0].wait_seconds == near(20e-6)
    assert [(t.transport, t.small_count, t.bytes) for t in profile.transfers] == [("HCCS", 4, 2e6)]
    assert [(k.source, k.target, k.bytes_per_second) for k in profile.links] == [(2, 3, near(20e9))]


def test_single_transfers_copies_and_samples_of_a_database(tmp_path: Path) -> None:
    path = captures.database(tmp_path / "ascend_pytorch_profiler_2.db", RUNS, rank=2)
    with closing(sqlite3.connect(path)) as base:
        base.executescript("""
            INSERT INTO STRING_IDS VALUES (900, 'MEMCPY_ASYNC'), (901, 'read'), (902, 'write'), (903, 'aclrtMalloc'),
                (904, 'PTA');
            CREATE TABLE MEMCPY_INFO (globalTaskId, size, memcpyOperation);
            CREATE TABLE ENUM_MEMCPY_OPERATION (id, name);
            INSERT INTO ENUM_MEMCPY_OPERATION VALUES (1, 'host to device');
            INSERT INTO TASK VALUES (1000, 3000, 3, 500, 900), (5000, 9000, 3, 501, 0);
            INSERT INTO MEMCPY_INFO VALUES (500, 4096, 1);
            CREATE TABLE ENUM_HCCL_LINK_TYPE (id, name);
            INSERT INTO ENUM_HCCL_LINK_TYPE VALUES (1, 'HCCS');
            CREATE TABLE COMMUNICATION_TASK_INFO (globalTaskId, srcRank, dstRank, size, linkType);
            INSERT INTO COMMUNICATION_TASK_INFO VALUES (501, 2, 3, 8000, 1), (500, 2, 4294967295, 8000, 1);
            CREATE TABLE CANN_API (startNs, endNs, type, name);
            CREATE TABLE ENUM_API_TYPE (id, name);
            INSERT INTO ENUM_API_TYPE VALUES (20000, 'acl');
            INSERT INTO CANN_API VALUES (0, 5000, 20000, 903), (10, 2010, 20000, 903);
            CREATE TABLE MEMORY_RECORD (component, timestamp, totalAllocated, totalReserved);
            INSERT INTO MEMORY_RECORD VALUES (904, 1790000000000000000, 60, 100);
            CREATE TABLE HBM (timestampNs, bandwidth, hbmId, type);
            INSERT INTO HBM VALUES (1, 10, 0, 901), (1, 20, 1, 901), (1, 5, 0, 902), (2, 40, 0, 901), (2, 0, 0, 902);
            CREATE TABLE LLC (hitRate, throughput);
            INSERT INTO LLC VALUES (50.0, 100), (90.0, 300), (1.0, 0);
        """)
    profile = only(tmp_path)
    assert [(c.direction, c.count, c.bytes) for c in profile.copies] == [("host to device", 1, 4096)]
    assert {(t.transport, t.small_count) for t in profile.transfers} == {
        ("HCCS", 1),
        ("copy host to device", 1),
    }
    assert [(k.source, k.target, k.bytes, k.longest_seconds) for k in profile.links] == [
        (2, 3, 8000, near(4e-6))
    ]
    (call,) = profile.apis
    assert (call.level, call.count, call.longest_seconds) == ("acl", 2, near(5e-6))
    assert profile.memory[0].fragmentation_ratio == near(0.4)
    assert profile.hbm is not None
    assert (profile.hbm.read, profile.hbm.write, profile.hbm.peak) == (35, 2.5, 40)
    assert profile.l2[0].ratio == near(0.8)


def test_a_rank_that_is_there_twice_gets_the_name_of_its_folder(tmp_path: Path) -> None:
    for name in ("before", "after"):
        captures.database(tmp_path / name / "ascend_pytorch_profiler_0.db", RUNS)
    found = reading(tmp_path)
    assert [profile.label for profile in found.profiles] == ["rank 0 in after", "rank 0 in before"]
    assert any("rank 0 is there 2 times" in note for note in found.notes)


def test_a_folder_named_twice_is_read_once(tmp_path: Path) -> None:
    captures.kernels(tmp_path / "a" / "kernel_details.csv", RUNS)
    assert len(reading(tmp_path, tmp_path / "a", tmp_path / "a" / ".." / "a").profiles) == 1


def test_progress_adds_up_to_what_was_planned(tmp_path: Path) -> None:
    captures.kernels(tmp_path / "kernel_details.csv", RUNS)
    captures.communication(tmp_path / "communication.json", [1.0])
    captures.database(tmp_path / "db" / "msprof_1.db", RUNS)
    planned = plan([tmp_path])
    told: list[int] = []
    read(planned, told.append)
    assert sum(told) == planned.size > 0


def test_parsed_is_json_ready_and_says_why_nothing_was_read(tmp_path: Path) -> None:
    captures.kernels(tmp_path / "rank3" / "kernel_details.csv", RUNS)
    found = parsed(tmp_path)
    assert json.dumps(found, allow_nan=False)
    assert (found["error"], found["notes"]) == (None, [])
    assert found["profiles"][0]["rank"] == 3
    assert found["profiles"][0]["hbm"] is None
    nothing = parsed(tmp_path / "no")
    assert nothing["profiles"] == []
    assert "no such file" in nothing["error"]


def test_no_damage_to_a_database_raises(tmp_path: Path) -> None:
    whole = captures.database(tmp_path / "whole" / "msprof_1.db", RUNS).read_bytes()
    # SQLite's own words for this one hold the damaged bytes, which are not UTF-8.
    schema = bytearray(whole)
    schema[schema.index(b"CREATE TABLE") : schema.index(b"CREATE TABLE") + 12] = b"\x9a" * 12
    damaged = [bytes(schema)]
    for seed in range(60):
        random_ = Random(seed)
        page = bytearray(whole)
        for _ in range(random_.choice((1, 10, 300))):
            page[random_.randrange(len(page))] = random_.randrange(256)
        damaged.append(bytes(page))
    for number, content in enumerate(damaged):
        path = tmp_path / str(number) / "msprof_1.db"
        path.parent.mkdir()
        path.write_bytes(content)
        found = reading(path)
        assert found.profiles or found.notes
