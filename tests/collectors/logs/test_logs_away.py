"""Lines that were written while nobody read: counted, and no news unless they bear a recent time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from collectors.logs.find import Pattern
from collectors.logs.logs import PRESENT_SECONDS, TOUCH_SECONDS, LogsCollector
from collectors.sample import Sample

START = 1_796_026_000.0
HOURS = 9 * 3600.0
BARE = "OSError: Address already in use\n"


def collector(folder: Path, journal: tuple[str, ...] | None = None) -> LogsCollector:
    positions = folder / "positions.json"
    pattern = Pattern("engine", str(folder / "engine.log"))
    return LogsCollector([pattern], positions_file=positions, journal=journal)


def write(folder: Path, text: str) -> None:
    with (folder / "engine.log").open("a") as file:
        file.write(text)


def stamped(at: float) -> str:
    when = datetime.fromtimestamp(at, UTC).strftime("%m-%d %H:%M:%S")
    return f"ERROR {when} [core.py:5] {BARE}"


def read(source: LogsCollector, now: float) -> tuple[float, float | None]:
    """How many events were counted since the start, and the time of the last one."""
    samples: list[Sample] = asyncio.run(source.collect(now))
    values = {one.name: one.value for one in samples}
    count, last = values.get("trimtab_log_events_total", 0.0), values.get("trimtab_log_event_time_seconds")
    assert isinstance(count, float) and (last is None or isinstance(last, float))
    return count, last


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "engine.log").touch()
    read(collector(tmp_path), START)
    return tmp_path


def test_a_line_of_the_night_is_counted_and_is_no_news(folder: Path) -> None:
    write(folder, BARE)
    source = collector(folder)
    assert read(source, START + HOURS) == (1.0, None)
    assert read(source, START + HOURS + 5) == (1.0, None)
    write(folder, BARE)
    assert read(source, START + HOURS + 10) == (2.0, START + HOURS + 10)


def test_after_a_short_restart_it_is_news(folder: Path) -> None:
    write(folder, BARE)
    now = START + PRESENT_SECONDS - 1
    assert read(collector(folder), now) == (1.0, now)


def test_quiet_logs_are_no_gap(folder: Path) -> None:
    source = collector(folder)
    at = START
    while at < START + HOURS:
        at += TOUCH_SECONDS
        read(source, at)
    write(folder, BARE)
    assert read(collector(folder), at + 30) == (1.0, at + 30)


@pytest.mark.parametrize(("ago", "news"), [(120.0, True), (8 * 3600.0, False)])
def test_a_line_that_bears_its_time_is_taken_at_its_word(folder: Path, ago: float, news: bool) -> None:
    now = START + HOURS
    write(folder, stamped(now - ago))
    assert read(collector(folder), now) == (1.0, now if news else None)


def test_what_one_pass_does_not_reach_is_as_old(folder: Path) -> None:
    write(folder, "nothing of note\n" * 40_000 + BARE)
    source = collector(folder)
    now, count = START + HOURS, 0.0
    while not count:
        now += 5
        count, last = read(source, now)
    assert now > START + HOURS + 5
    assert last is None


def test_the_journals_first_answer_is_as_old(folder: Path) -> None:
    program = folder / "journalctl"
    entry = '{"__CURSOR": "c", "MESSAGE": "[ascend] [ERROR] [devmm] x", "_SOURCE_MONOTONIC_TIMESTAMP": "1"}'
    program.write_text(f"#!/bin/sh\necho '{entry}'\n")
    program.chmod(0o755)
    journal = (str(program),)
    before = collector(folder, journal)
    assert [read(before, START + second) for second in (1, 2)] == [(0.0, None), (0.0, None)]
    source = collector(folder, journal)
    now = START + HOURS
    assert [read(source, now + second) for second in (0, 5, 31)] == [(0.0, None), (1.0, None), (1.0, None)]
    assert read(source, now + 36) == (2.0, now + 36)
