"""Loops outlive their failures; each trouble is said once and its end is said."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from daemon import supervisor as module
from daemon.notices import Notices
from daemon.supervisor import Supervisor


class Log:
    """A log that remembers."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def __getattr__(self, level: str) -> Any:
        return lambda text, **_: self.lines.append((level, text))


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(module, "LONGEST_PAUSE_SECONDS", 0.04)


def test_a_failing_tick_is_said_once_and_its_recovery_too() -> None:
    log = Log()
    notices = Notices(lambda: 0.0, log)
    ticks = 0
    stop = asyncio.Event()

    async def tick(_: float) -> None:
        nonlocal ticks
        ticks += 1
        if ticks <= 3:
            raise OSError("no such thing")
        if ticks == 6:
            stop.set()

    asyncio.run(Supervisor(notices, stop, lambda: 0.0).every("test", 0.001, tick))
    assert ticks == 6
    assert [level for level, _ in log.lines] == ["error", "info"]
    assert "no such thing" in log.lines[0][1]
    assert notices.standing() == []


def test_pauses_grow_while_it_fails() -> None:
    times: list[float] = []
    stop = asyncio.Event()

    async def tick(_: float) -> None:
        times.append(asyncio.get_running_loop().time())
        if len(times) == 4:
            stop.set()
        raise RuntimeError("always")

    asyncio.run(Supervisor(Notices(lambda: 0.0, Log()), stop, lambda: 0.0).every("test", 0.001, tick))
    gaps = [b - a for a, b in pairwise(times)]
    assert gaps[0] >= 0.009
    assert gaps[2] >= 0.039


def test_what_ends_by_itself_is_started_again() -> None:
    starts = 0
    stop = asyncio.Event()

    async def run() -> None:
        nonlocal starts
        starts += 1
        if starts == 2:
            raise OSError("broken")
        if starts == 3:
            await asyncio.sleep(0.03)
            stop.set()

    notices = Notices(lambda: 0.0, Log())
    asyncio.run(Supervisor(notices, stop, lambda: 0.0).keep("test", run))
    assert starts == 3


def test_one_failing_loop_does_not_end_another() -> None:
    stop = asyncio.Event()
    good = 0

    async def bad_tick(_: float) -> None:
        raise RuntimeError("bad")

    async def good_tick(_: float) -> None:
        nonlocal good
        good += 1
        if good == 5:
            stop.set()

    async def both() -> None:
        supervisor = Supervisor(Notices(lambda: 0.0, Log()), stop, lambda: 0.0)
        async with asyncio.TaskGroup() as group:
            group.create_task(supervisor.every("bad", 0.001, bad_tick))
            group.create_task(supervisor.every("good", 0.001, good_tick))

    asyncio.run(both())
    assert good == 5
