"""Profilers' databases: read without a trace, whatever tables they have, however damaged they are."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from tests.collectors.profile import captures
from tests.collectors.profile.captures import MIXED, MSPROF, near, only, reading


def test_the_database_names_rank_device_and_chip(tmp_path: Path) -> None:
    profile = only(captures.database(tmp_path / "msprof_1.db", MIXED, rank=4))
    assert (profile.rank, profile.device, profile.chip, profile.label) == (4, "3", "Ascend910B3", "rank 4")


def test_msprof_alone_knows_no_rank(tmp_path: Path) -> None:
    profile = only(captures.database(tmp_path / "msprof_1.db", MIXED, rank=-1))
    assert (profile.rank, profile.label) == (None, "device 3")


def test_nothing_is_written_beside_a_database_even_with_a_log(tmp_path: Path) -> None:
    path = captures.database(tmp_path / "msprof_1.db", MIXED)
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
    path = captures.database(run / "msprof_1.db", MIXED)
    captures.kernels(run / "mindstudio_profiler_output" / "op_summary_1.csv", MIXED, MSPROF)
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
    path = captures.database(tmp_path / "msprof_1.db", MIXED, pipes=False)
    with closing(sqlite3.connect(path)) as base:
        base.execute("DROP TABLE TASK_PMU_INFO")
        base.execute("DROP TABLE COMMUNICATION_OP")
    profile = only(path)
    assert profile.computing_seconds == near(165.5e-6)
    assert all(operator.measured_seconds == 0 for operator in profile.operators)


def test_what_the_databases_sum_up(tmp_path: Path) -> None:
    captures.database(tmp_path / "ascend_pytorch_profiler_2.db", MIXED, rank=2)
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
    path = captures.database(tmp_path / "ascend_pytorch_profiler_2.db", MIXED, rank=2)
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


def test_a_database_of_two_devices_is_two_profiles(tmp_path: Path) -> None:
    path = captures.database(tmp_path / "msprof_1.db", MIXED, rank=-1)
    with closing(sqlite3.connect(path)) as base:
        base.executescript("""
            UPDATE TASK SET deviceId = 4 WHERE globalTaskId IN (1, 2);
            INSERT INTO RANK_DEVICE_MAP VALUES (-1, 4);
            INSERT INTO NPU_INFO VALUES (4, 'Ascend910B4');
            ALTER TABLE COMMUNICATION_OP ADD COLUMN opId INTEGER;
            UPDATE COMMUNICATION_OP SET opId = 9;
            CREATE TABLE COMMUNICATION_TASK_INFO (globalTaskId, srcRank, dstRank, size, linkType, opId);
            INSERT INTO COMMUNICATION_TASK_INFO VALUES (1, 0, 1, 8000000, 10, 9);
            CREATE TABLE NPU_MEM (type, ddr, hbm, timestampNs, deviceId);
            INSERT INTO NPU_MEM VALUES (10, 0, 4096, 1, '3'), (10, 0, 8192, 1, '4');
            CREATE TABLE CANN_API (startNs, endNs, type, name);
            INSERT INTO CANN_API VALUES (0, 7, 10, 10);
        """)
    found = reading(path)
    assert [(profile.label, profile.chip) for profile in found.profiles] == [
        ("device 3", "Ascend910B3"),
        ("device 4", "Ascend910B4"),
    ]
    first, second = found.profiles
    assert [profile.computing_seconds for profile in found.profiles] == [near(105e-6), near(60.5e-6)]
    assert [profile.communication_task_seconds for profile in found.profiles] == [0, near(40e-6)]
    assert [profile.memory[0].peak_reserved_bytes for profile in found.profiles] == [4096, 8192]
    assert ([len(first.apis), len(second.apis)], [len(first.links), len(second.links)]) == ([1, 0], [0, 1])
    assert any("holds devices 3, 4" in note for note in found.notes)


def test_rows_without_a_time_are_left_out_and_counted(tmp_path: Path) -> None:
    path = captures.database(tmp_path / "msprof_1.db", MIXED)
    with closing(sqlite3.connect(path)) as base:
        base.executescript("""
            UPDATE TASK SET startNs = NULL WHERE globalTaskId = 0;
            UPDATE TASK SET endNs = NULL WHERE globalTaskId = 1;
            CREATE TABLE NPU_MEM (type, ddr, hbm, timestampNs, deviceId);
            INSERT INTO NPU_MEM VALUES (10, 0, 4096, 5, 3), (10, 0, 8192, NULL, 3), (10, 0, 8192, 'x', 3);
            CREATE TABLE CANN_API (startNs, endNs, type, name);
            INSERT INTO CANN_API VALUES (0, 7, 10, 10), (0, NULL, 10, 10), (NULL, 7, 10, 11);
        """)
    found = reading(path)
    (profile,) = found.profiles
    assert (profile.compute_tasks, profile.computing_seconds) == (2, near(15.5e-6))
    assert profile.timeline is not None
    assert profile.timeline.span_seconds < 1
    assert [(call.count, call.seconds) for call in profile.apis] == [(1, near(7e-9))]
    assert profile.memory[0].peak_reserved_bytes == 4096
    for table, count in (("TASK, COMMUNICATION_OP", 2), ("NPU_MEM", 2), ("CANN_API", 2)):
        assert f"{path}: {table}: {count} rows without a time were left out" in found.notes


def test_no_damage_to_a_database_raises(tmp_path: Path) -> None:
    whole = captures.database(tmp_path / "whole" / "msprof_1.db", MIXED).read_bytes()
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
