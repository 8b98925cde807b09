"""A reading that hangs holds up nothing, and what it raises reaches the one who waits."""

from __future__ import annotations

import asyncio
import threading

import pytest

from collectors.host.blocking import Blocking
from collectors.sample import CollectorError


def test_what_is_found_is_given() -> None:
    assert asyncio.run(Blocking[int]("a-name", "why?").run(lambda: 7)) == 7


def test_what_is_raised_is_raised() -> None:
    def fail() -> int:
        raise ZeroDivisionError("as in a defect")

    with pytest.raises(ZeroDivisionError, match="as in a defect"):
        asyncio.run(Blocking[int]("a-name", "why?").run(fail))


def test_a_reading_that_hangs_is_not_begun_again_and_ends_alone() -> None:
    mended = threading.Event()
    blocking = Blocking[bool]("a-name", "is the disk dead?")

    async def scenario() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await blocking.run(lambda: mended.wait(10))
        with pytest.raises(CollectorError, match="an earlier reading still hangs; is the disk dead"):
            await blocking.run(lambda: True)
        mended.set()
        assert blocking.finished is not None
        await asyncio.to_thread(blocking.finished.wait, 10)
        assert await blocking.run(lambda: True)

    asyncio.run(scenario())


def test_a_loop_that_is_closed_before_the_end_is_no_error() -> None:
    mended = threading.Event()
    blocking = Blocking[bool]("a-name", "why?")

    async def scenario() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await blocking.run(lambda: mended.wait(10))

    asyncio.run(scenario())
    mended.set()
    assert blocking.finished is not None
    assert blocking.finished.wait(10)
