"""The collector: real files, read by the real runner."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from collectors.history import History
from collectors.logs.find import Pattern
from collectors.logs.logs import LogsCollector, ascend_patterns
from collectors.logs.position import load
from collectors.runner import Runner
from collectors.sample import Sample
from tests.prepare import ROOT

FIXTURES = ROOT / "tests" / "collectors" / "fixtures" / "logs"


def collector(
    folder: Path, *, remembers: bool = True, kmsg: Path | None = None, journal: tuple[str, ...] | None = None
) -> LogsCollector:
    patterns = [*ascend_patterns(folder / "ascend"), Pattern("engine", str(folder / "engine.log"))]
    return LogsCollector(
        patterns, positions_file=folder / "positions.json", remembers=remembers, kmsg=kmsg, journal=journal
    )


def collect(source: LogsCollector, now: float) -> list[Sample]:
    return asyncio.run(source.collect(now))


def events(samples: list[Sample]) -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], float] = {}
    for sample in samples:
        if sample.name == "trimtab_log_events_total" and isinstance(sample.value, float):
            own = dict(sample.labels)
            found[own["source"], own["signature"]] = sample.value
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for part in ("ascend/debug/plog", "ascend/run/plog", "ascend/debug/device-3"):
        (tmp_path / part).mkdir(parents=True)
    (tmp_path / "engine.log").touch()
    return tmp_path


def test_captured_logs_are_counted(folder: Path) -> None:
    source = collector(folder)
    assert collect(source, 1.0) == []
    (folder / "ascend/debug/plog/plog-71_20260203040506700.log").write_bytes(
        (FIXTURES / "plog.log").read_bytes()
    )
    (folder / "ascend/debug/device-3/device-71_2026.log").write_bytes((FIXTURES / "device.log").read_bytes())
    (folder / "engine.log").write_bytes((FIXTURES / "engine.log").read_bytes())
    samples = collect(source, 2.0)
    assert events(samples) == {
        ("plog", "acl_507015"): 2,
        ("plog", "device_synchronize_failed"): 1,
        ("plog", "p2p_timeout"): 1,
        ("device", "task_scheduler_exception"): 1,
        ("device", "fault_80e18008"): 1,
        ("engine", "npu_out_of_memory"): 6,
        ("engine", "unrecognised_error"): 1,
        ("engine", "engine_dead"): 1,
    }
    lines = {dict(s.labels)["source"]: s.value for s in samples if s.name == "trimtab_log_lines_total"}
    assert lines == {"plog": 6, "device": 3, "engine": 7}
    assert source.notes == ()


def test_a_restart_neither_repeats_nor_loses(folder: Path) -> None:
    collect(collector(folder), 1.0)
    (folder / "engine.log").write_text("OSError: Address already in use\n")
    first = collector(folder)
    assert events(collect(first, 2.0)) == {("engine", "address_in_use"): 1}
    with (folder / "engine.log").open("a") as file:
        file.write("OSError: No space left on device\n")
    assert events(collect(collector(folder), 3.0)) == {("engine", "disk_full"): 1}


def test_a_single_look_takes_nothing_away(folder: Path) -> None:
    collect(collector(folder), 1.0)
    kept = load(folder / "positions.json")
    (folder / "engine.log").write_text("OSError: Address already in use\n")
    for _ in range(2):
        look = collector(folder, remembers=False)
        assert events(collect(look, 2.0)) == {("engine", "address_in_use"): 1}
    assert load(folder / "positions.json") == kept


def test_the_first_is_logged_and_the_number_when_it_is_quiet(folder: Path) -> None:
    source = collector(folder)
    collect(source, 1.0)
    with capture_logs() as logged:
        for now in (2.0, 3.0, 4.0):
            with (folder / "engine.log").open("a") as file:
                file.write("OSError: Address already in use\n" * 1000)
            collect(source, now)
        collect(source, 400.0)
    assert [entry["event"] for entry in logged] == ["seen in a log", "quiet again in a log"]
    assert (logged[0]["signature"], logged[0]["log_level"]) == ("address_in_use", "warning")
    assert (logged[1]["events"], logged[1]["seconds"]) == (3000, 2)


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b"\xff\xfe\x00" * 1000 + b"\n"),
        lambda path: path.write_bytes(b"E" * 100 * 1024 * 1024),
        a_pipe,
        lambda path: (path.unlink(), path.mkdir()),
        lambda path: (path.unlink(), path.symlink_to("/dev/zero")),
    ],
    ids=["missing", "no text", "one line of 100 MB", "a pipe", "a folder", "endless"],
)
def test_whatever_is_in_a_file_the_others_are_read_and_it_is_said_once(
    folder: Path, damage: Callable[[Path], object]
) -> None:
    source = collector(folder)
    runner = Runner([source], History(), timeout_seconds=5.0)
    asyncio.run(runner.once(1.0))
    damage(folder / "engine.log")
    plog = folder / "ascend/run/plog/plog-71_1.log"
    with capture_logs() as logged:
        for now in (2.0, 3.0, 4.0):
            with plog.open("a") as file:
                file.write("EE9999: Inner Error!\n")
            samples = asyncio.run(runner.once(now))
            assert events(samples)["plog", "runtime_inner_error"] == now - 1
    assert all(health.success for health in runner.health())
    unreadable = [entry for entry in logged if entry["event"] == "source partly unreadable"]
    assert len(unreadable) <= 1


def test_a_damaged_state_file_is_said_and_replaced(folder: Path) -> None:
    (folder / "positions.json").write_text("{")
    source = collector(folder)
    collect(source, 1.0)
    assert "is damaged" in source.notes[0]
    assert "read from their present end on" in source.notes[0]
    collect(source, 2.0)
    assert source.notes == ()
    assert load(folder / "positions.json") is not None


def test_a_state_file_that_cannot_be_written_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    source = collector(folder)
    collect(source, 1.0)
    assert source.notes == (
        f"{folder / 'positions.json'}: cannot be written: No space left on device; after a restart lines are missed",
    )
    monkeypatch.undo()
    collect(source, 2.0)
    assert not source.notes


def test_a_missing_kernel_log_is_said(folder: Path) -> None:
    source = collector(folder, kmsg=folder / "kmsg")
    collect(source, 1.0)
    assert source.notes == (
        f"{folder / 'kmsg'}: cannot be read: No such file or directory; "
        "map the device into the container, or use the journal (collect.logs.journald)",
    )


def test_the_journal_is_asked_now_and_then_and_its_lines_count(folder: Path) -> None:
    program = folder / "journalctl"
    entry = '{"__CURSOR": "c", "MESSAGE": "[ascend] [ERROR] [devmm] x", "_SOURCE_MONOTONIC_TIMESTAMP": "1"}'
    program.write_text(f"#!/bin/sh\necho asked >> {folder}/asked\necho '{entry}'\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    source = collector(folder, journal=(str(program),))
    for now in (1.0, 5.0, 31.0):
        collect(source, now)
    assert (folder / "asked").read_text().count("asked") == 2
    assert events(collect(source, 36.0)) == {("kernel", "driver_error"): 1}
    kept = load(folder / "positions.json")
    assert kept is not None
    assert kept.journal_cursor == "c"


def test_a_flood_is_cheap(folder: Path, say: Callable[[str], None]) -> None:
    """CPU of a pass that reads all it may: 1 MiB of ordinary lines."""
    source = collector(folder)
    collect(source, 1.0)
    line = "(EngineCore pid=7) INFO 02-03 04:05:06 [loggers.py:5] Engine 000: Avg prompt throughput: 12.1 tokens/s\n"
    logs = [folder / f"ascend/run/plog/plog-{number}_1.log" for number in range(4)]
    for log in logs:
        log.write_text(line * (256 * 1024 // len(line)))
    began = os.times()
    samples = collect(source, 2.0)
    ended = os.times()
    seconds = ended.user + ended.system - began.user - began.system
    lines = next(s.value for s in samples if s.name == "trimtab_log_lines_total")
    assert isinstance(lines, float)
    say(
        f"a pass over {lines:.0f} lines (1 MiB): {seconds * 1000:.0f} ms of CPU, {seconds / lines * 1e6:.1f} us a line"
    )
    assert seconds < 1.0
