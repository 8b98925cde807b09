"""Findings say what a profile shows, name the rank, and keep still where nothing is wrong."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from collectors.profile.findings import Finding, examine
from collectors.profile.read import plan, read
from tests.collectors.profile import captures
from tests.collectors.profile.captures import Run, run_after_run

REDUCE = Run(
    "hcom_allReduce_", 0, 30.0, core="HCCL", inputs=None, outputs=None, mac=None, vec=None, mte2=None
)


def layers(product_us: float = 100.0, count: int = 10) -> list[Run]:
    layer = [
        Run("AddRmsNorm", 0, 10.0, core="AI_VECTOR_CORE", mac=0.0, vec=0.4, mte2=0.8),
        Run("MatMulV2", 0, product_us, mac=0.9, mte2=0.5),
        Run("SwiGlu", 0, 20.0, core="AI_VECTOR_CORE", mac=0.0, vec=0.5, mte2=0.9),
        Run("MatMulV2", 0, product_us, mac=0.9, mte2=0.5),
    ]
    return run_after_run(layer * count)


def rank(folder: Path, number: int, runs: list[Run], waits_us: list[float], free_us: float = 10.0) -> None:
    out = folder / f"rank{number}"
    captures.kernels(out / "kernel_details.csv", runs)
    computing = sum(run.us for run in runs if not run.communication)
    captures.steps(out / "step_trace_time.csv", computing, exposed=sum(waits_us), free=free_us)
    captures.communication(out / "communication.json", waits_us)


def findings(*paths: Path, nominal: float | None = None) -> dict[str, Finding]:
    reading = read(plan(paths))
    return {finding.id: finding for finding in examine(reading.profiles, hbm_nominal=nominal)}


def figures(finding: Finding) -> dict[tuple[str | None, str], float]:
    return {(figure.rank, figure.name): figure.value for figure in finding.figures}


def test_a_slow_card_and_the_one_that_waits_for_it_are_named(tmp_path: Path) -> None:
    usual = sum(run.us for run in layers())
    waits = usual * 0.28 / 0.72
    rank(tmp_path, 0, layers(), [usual * 0.1 / 0.9], free_us=0)
    rank(tmp_path, 1, layers(product_us=123.0), [5.0, 5.0])
    rank(tmp_path, 2, layers(), [waits / 2, waits / 2], free_us=0)
    rank(tmp_path, 3, layers(product_us=101.0), [usual * 0.1 / 0.9], free_us=0)
    found = findings(tmp_path)
    slow = found["slow_card"]
    assert slow.title.startswith("rank 1 is slow: MatMulV2 takes 23% longer")
    assert figures(slow)["rank 1", "MatMulV2: longer than on the others"] == pytest.approx(0.23, abs=0.005)
    assert {figure.rank for figure in slow.figures} == {"rank 1"}
    waiting = found["waiting_card"]
    assert waiting.title == "rank 2 waits 28% of its time in collectives; rank 1 waits least"
    assert figures(waiting)["rank 2", "waiting"] == pytest.approx(0.28)
    assert waiting.threshold is not None


def test_ranks_that_differ_as_runs_do_are_not_named(tmp_path: Path) -> None:
    rank(tmp_path, 0, layers(product_us=100.0), [300.0])
    rank(tmp_path, 1, layers(product_us=108.0), [100.0])
    found = findings(tmp_path)
    assert "slow_card" not in found
    assert "waiting_card" not in found
    assert figures(found["waits"])["rank 0", "waiting"] == pytest.approx(300 / 2610)


def test_an_operator_that_takes_little_names_no_card(tmp_path: Path) -> None:
    rank(tmp_path, 0, [*layers(), Run("Tril", 9000.0, 10.0)], [1.0])
    rank(tmp_path, 1, [*layers(), Run("Tril", 9000.0, 20.0)], [1.0])
    assert "slow_card" not in findings(tmp_path)


def test_more_work_is_not_slowness(tmp_path: Path) -> None:
    rank(tmp_path, 0, layers(count=10), [1.0])
    rank(tmp_path, 1, layers(count=20), [1.0])
    assert "slow_card" not in findings(tmp_path)


def test_two_runs_of_one_rank_are_no_two_cards(tmp_path: Path) -> None:
    rank(tmp_path / "before", 0, layers(), [1.0])
    rank(tmp_path / "after", 0, layers(product_us=200.0), [1.0])
    assert "slow_card" not in findings(tmp_path)


def test_two_captures_of_one_device_are_no_two_cards(tmp_path: Path) -> None:
    for name, product in (("a", 100.0), ("b", 200.0)):
        captures.kernels(
            tmp_path / name / "op_summary_1.csv", layers(product_us=product), captures.MSPROF, first="0"
        )
    assert "slow_card" not in findings(tmp_path)
    assert any("device 0 is there 2 times as text" in note for note in read(plan([tmp_path])).notes)
    captures.kernels(
        tmp_path / "other" / "op_summary_1.csv", layers(product_us=200.0), captures.MSPROF, first="1"
    )
    assert findings(tmp_path)["slow_card"].title.startswith("device 1 is slow")


def test_captures_of_nobody_knows_which_card_are_not_compared(tmp_path: Path) -> None:
    for name, product in (("one", 100.0), ("two", 200.0)):
        captures.kernels(tmp_path / name / "kernel_details.csv", layers(product_us=product))
    assert "slow_card" not in findings(tmp_path)


def test_a_table_of_tasks_that_is_cut_tells_no_gaps(tmp_path: Path) -> None:
    runs = layers(count=2)
    late = Run("GatherV2", runs[-1].start_us + 400.0, 20.0)
    captures.kernels(tmp_path / "kernel_details.csv", [*runs, late])
    computing = sum(run.us for run in runs) + 20.0
    captures.steps(tmp_path / "step_trace_time.csv", computing, exposed=0.0, free=330.0)
    assert "host_gaps" in findings(tmp_path)
    captures.steps(tmp_path / "step_trace_time.csv", computing * 3, exposed=0.0, free=330.0)
    assert "host_gaps" not in findings(tmp_path)
    assert any("gaps between tasks are not told" in note for note in read(plan([tmp_path])).notes)
    captures.steps(tmp_path / "step_trace_time.csv", computing, exposed=300.0, free=30.0)
    assert "host_gaps" not in findings(tmp_path)
    assert any("the steps' free time is 30.0 us" in note for note in read(plan([tmp_path])).notes)


def test_tasks_on_several_streams_agree_with_steps_that_count_their_time_once(tmp_path: Path) -> None:
    runs = [Run("MatMulV2", 0, 100.0), Run("MatMulV2", 10, 90.0), Run("MatMulV2", 300, 100.0)]
    captures.kernels(tmp_path / "kernel_details.csv", runs)
    captures.steps(tmp_path / "step_trace_time.csv", 200.0, exposed=0.0, free=200.0)
    assert read(plan([tmp_path])).notes == ()
    assert "host_gaps" in findings(tmp_path)


def test_tasks_that_took_no_time_are_no_reason_to_fail(tmp_path: Path) -> None:
    attention = [Run("BatchMatMul", 0, 0.0), Run("SoftmaxV2", 0, 0.0), Run("BatchMatMul", 0, 0.0)]
    for number in (0, 1):
        rank(tmp_path, number, run_after_run(attention * 4), [0.0], free_us=0.0)
    rank(tmp_path, 1, layers(count=1), [0.0], free_us=0.0)
    rank(tmp_path, 2, [Run("MatMulV2", 0, 0.0)] * 2, [0.0], free_us=0.0)
    assert "slow_card" not in findings(tmp_path)


def test_shares_add_up_and_say_what_was_not_measured(tmp_path: Path) -> None:
    runs = [*layers(), Run("Cast", 9000.0, 240.0, core="AI_CPU", mac=None, vec=None, mte2=None)]
    rank(tmp_path, 0, runs, [400.0], free_us=360.0)
    found = findings(tmp_path)
    shares = {name: value for (_, name), value in figures(found["time_shares"]).items()}
    assert shares == {
        "memory bound": pytest.approx(300 / 3300),
        "compute bound": pytest.approx(2000 / 3300),
        "computing, not measured": pytest.approx(240 / 3300),
        "communication": pytest.approx(400 / 3300),
        "idle": pytest.approx(360 / 3300),
    }
    assert "idle_share" not in found
    assert "communication_share" not in found
    assert "bubbles" not in found


def test_memory_bound_is_weighted_by_duration_and_never_raises_an_alarm(tmp_path: Path) -> None:
    rank(tmp_path, 0, layers(), [1.0])
    finding = findings(tmp_path)["memory_bound"]
    assert finding.severity == "info"
    assert "MEM_STALL" in finding.title
    assert "No counter named MEM_STALL exists" in finding.meaning
    shown = figures(finding)
    assert shown["rank 0", "time in memory-bound operators"] == pytest.approx(300 / 2300)
    assert shown["rank 0", "mte2 busy, weighted by duration"] == pytest.approx(
        (100 * 0.8 + 2000 * 0.5 + 200 * 0.9) / 2300
    )
    assert shown["rank 0", "memory_bound, weighted by duration"] == pytest.approx(
        (100 * 0.8 + 2000 * 0.5 + 200 * 0.9) / (100 * 0.4 + 2000 * 0.9 + 200 * 0.5)
    )


def test_bubbles_idle_and_communication_have_their_thresholds(tmp_path: Path) -> None:
    rank(tmp_path, 0, layers(), [1200.0], free_us=500.0)
    found = findings(tmp_path)
    assert figures(found["bubbles"])["rank 0", "bubbles"] == pytest.approx(1700 / 4000)
    assert found["communication_share"].severity == "medium"
    assert "idle_share" not in found
    rank(tmp_path, 0, layers(), [100.0], free_us=2300.0)
    assert findings(tmp_path)["idle_share"].severity == "high"


def test_host_gaps_name_the_kernels_that_came_late(tmp_path: Path) -> None:
    runs = layers(count=2)
    late = Run("GatherV2", runs[-1].start_us + 400.0, 20.0, name="aclnnIndex_GatherV2")
    captures.kernels(tmp_path / "kernel_details.csv", [*runs, late])
    finding = findings(tmp_path)["host_gaps"]
    assert finding.severity == "high"
    ((rank_, _), *_) = figures(finding)
    assert figures(finding)[rank_, "before aclnnIndex_GatherV2"] == pytest.approx(300e-6)
    captures.kernels(tmp_path / "kernel_details.csv", runs)
    assert "host_gaps" not in findings(tmp_path)


def test_many_small_transfers_are_a_sign_and_few_are_not(tmp_path: Path) -> None:
    captures.communication(
        tmp_path / "communication.json", [1.0], packets={"0.05": [300, 2.0], "4.0": [20, 3.0]}
    )
    finding = findings(tmp_path)["small_transfers"]
    assert figures(finding)[tmp_path.name, "HCCS: small"] == 300
    assert figures(finding)[tmp_path.name, "HCCS: rate of the small"] == pytest.approx(300 * 50e3 / 2e-3)
    captures.communication(
        tmp_path / "communication.json", [1.0], packets={"0.05": [30, 2.0], "4.0": [200, 3.0]}
    )
    assert "small_transfers" not in findings(tmp_path)


def test_a_slow_link_is_named_beside_its_like(tmp_path: Path) -> None:
    links = {f"0-{n}": ("HCCS", 10.0, 0.5) for n in range(1, 7)} | {
        "0-7": ("HCCS", 10.0, 1.6),
        "0-8": ("RDMA", 10.0, 5.0),
        "0-0": ("LOCAL", 10.0, 0.01),
    }
    captures.matrix(tmp_path / "communication_matrix.json", links)
    found = findings(tmp_path)
    assert found["slow_link"].title == "Slow HCCS links: 0 to 7"
    shown = figures(found["links"])
    assert shown[None, "0 to 8 (RDMA)"] == pytest.approx(2e9)
    assert shown[None, "0 to 7 (HCCS): longest time"] == pytest.approx(1.6e-3)
    assert not any("LOCAL" in name for _, name in shown)
    captures.matrix(tmp_path / "communication_matrix.json", {**links, "0-7": ("HCCS", 10.0, 0.7)})
    assert "slow_link" not in findings(tmp_path)


def test_a_link_that_two_profiles_list_counts_once(tmp_path: Path) -> None:
    links = {f"0-{n}": ("HCCS", 10.0, 0.5) for n in range(1, 4)}
    for name in ("before", "after"):
        captures.matrix(tmp_path / name / "communication_matrix.json", links)
    captures.matrix(tmp_path / "last" / "communication_matrix.json", {"0-1": ("HCCS", 10.0, 5.0)})
    found = findings(tmp_path)
    assert found["links"].title == "Links between ranks, the slowest 3 of 3"
    assert "slow_link" not in found


def test_unfused_neighbours_that_take_time_are_named_with_what_to_try(tmp_path: Path) -> None:
    attention = [
        Run("BatchMatMul", 0, 50.0),
        Run("SoftmaxV2", 0, 30.0, core="AI_VECTOR_CORE"),
        Run("BatchMatMul", 0, 50.0),
    ]
    captures.kernels(tmp_path / "kernel_details.csv", run_after_run(attention * 4))
    found = findings(tmp_path)
    finding = found["unfused_softmax_batchmatmul"]
    assert figures(finding)[tmp_path.name, "SoftmaxV2 + BatchMatMul"] == 4
    assert figures(finding)[tmp_path.name, "their time"] == pytest.approx(320e-6)
    assert finding.advice == ("vllm-ascend has no switch for this",)
    captures.kernels(tmp_path / "kernel_details.csv", run_after_run([*layers(), *attention]))
    assert "unfused_softmax_batchmatmul" not in findings(tmp_path)


def test_hbm_is_held_to_what_the_user_or_the_chip_says(tmp_path: Path) -> None:
    captures.kernels(tmp_path / "op_summary_1.csv", layers(), captures.MSPROF, first="0")
    captures.table(
        tmp_path / "hbm_1.csv",
        ("Device_id", "Metric", "Read(MB/s)", "Write(MB/s)"),
        [(0, 0, 300_000, 100_000)],
    )
    assert ("device 0", "of nominal") not in figures(findings(tmp_path)["hbm_use"])
    assert "--hbm-gbps" in findings(tmp_path)["hbm_use"].advice[0]
    assert figures(findings(tmp_path, nominal=1.6e12)["hbm_use"])["device 0", "of nominal"] == 0.25


def test_l2_hits_that_fall_with_the_length_are_found(tmp_path: Path) -> None:
    runs = run_after_run(
        [Run("MatMulV2", 0, 10.0, inputs="64,4096;4096,4096")] * 25
        + [Run("MatMulV2", 0, 10.0, inputs="2000,4096;4096,4096")] * 25
    )
    headings = ("Stream Id", "Task Id", "Hit Rate", "Victim Rate", "Op Name")
    captures.kernels(tmp_path / "kernel_details.csv", runs)
    for fall, severity in ((0.3, "medium"), (0.05, "info")):
        captures.table(
            tmp_path / "l2_cache.csv",
            headings,
            [(2, 100 + n, 0.8 if n < 25 else 0.8 - fall, 0.1, runs[n].label) for n in range(50)],
        )
        finding = findings(tmp_path)["l2_hits"]
        assert finding.severity == severity
        assert figures(finding)[tmp_path.name, "hits, up to 2048 tokens"] == pytest.approx(0.8 - fall)


def test_copies_and_allocations_while_the_model_runs(tmp_path: Path) -> None:
    captures.kernels(tmp_path / "op_summary_1.csv", layers(), captures.MSPROF, first="0")
    captures.table(
        tmp_path / "task_time_1.csv",
        ("Device_id", "kernel_name", "kernel_type", "task_time(us)"),
        [(0, "N/A", "MEMCPY_ASYNC", 30.0)] * 15,
    )
    captures.table(
        tmp_path / "api_statistic_1.csv",
        ("Device_id", "Level", "API Name", "Time(us)", "Count"),
        [("host", "acl", "aclrtMallocPhysical", 900.0, 12), ("host", "acl", "aclrtMallocHost", 900.0, 99)],
    )
    found = findings(tmp_path)
    assert found["copies"].severity == "high"
    assert figures(found["copies"])["device 0", "copies (unknown)"] == 15
    assert found["device_mallocs"].severity == "medium"
    assert ("device 0", "aclrtMallocHost") not in figures(found["device_mallocs"])


def test_the_allocator_is_told_and_not_judged(tmp_path: Path) -> None:
    captures.table(
        tmp_path / "memory_record.csv",
        ("Component", "Timestamp(us)", "Total Allocated(MB)", "Total Reserved(MB)"),
        [("PTA", captures.stamp(n), 50.0, 100.0) for n in range(4)],
    )
    finding = findings(tmp_path)["allocator"]
    assert finding.severity == "info"
    assert figures(finding)[tmp_path.name, "reserved and not allocated"] == pytest.approx(0.5)


def test_the_gravest_come_first(tmp_path: Path) -> None:
    rank(tmp_path, 0, layers(), [100.0], free_us=2300.0)
    severities = [f.severity for f in examine(read(plan([tmp_path])).profiles)]
    assert severities == sorted(severities, key=["high", "medium", "info"].index)
    assert severities[0] == "high"


def test_nothing_at_all_is_no_finding() -> None:
    assert examine([]) == []


def test_copies_within_the_device_raise_no_alarm(tmp_path: Path) -> None:
    path = captures.database(tmp_path / "msprof_1.db", layers(count=1))
    with closing(sqlite3.connect(path)) as base:
        base.executescript("""
            INSERT INTO STRING_IDS VALUES (900, 'MEMCPY_ASYNC');
            CREATE TABLE MEMCPY_INFO (globalTaskId, size, memcpyOperation);
            CREATE TABLE ENUM_MEMCPY_OPERATION (id, name);
            INSERT INTO ENUM_MEMCPY_OPERATION VALUES (1, 'host to device'), (2, 'device to device');
            INSERT INTO TASK VALUES (0, 100000, 3, 500, 900);
            INSERT INTO MEMCPY_INFO VALUES (500, 4096, 2);
        """)
    assert findings(path)["copies"].severity == "info"
    with closing(sqlite3.connect(path)) as base:
        base.execute("UPDATE MEMCPY_INFO SET memcpyOperation = 1")
        base.commit()
    assert findings(path)["copies"].severity == "high"
