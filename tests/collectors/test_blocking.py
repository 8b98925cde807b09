"""Work that hangs costs one thread: not the loop, not the process's end, and no second thread."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from collectors.blocking import Blocking
from collectors.sample import CollectorError
from tests.prepare import ROOT


def test_the_result_and_the_failure_come_back() -> None:
    def fail() -> int:
        raise ValueError("no")

    async def scenario() -> None:
        thread: Blocking[int] = Blocking("a", "why?")
        assert await thread.run(lambda: 7) == 7
        with pytest.raises(ValueError, match="no"):
            await thread.run(fail)
        assert await thread.run(lambda: 8) == 8

    asyncio.run(scenario())


def test_work_that_hangs_is_told_and_not_begun_twice() -> None:
    mended, begun = threading.Event(), 0

    def hang() -> int:
        nonlocal begun
        begun += 1
        assert mended.wait(10)
        return begun

    async def scenario() -> None:
        thread: Blocking[int] = Blocking("a", "is it dead?")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await thread.run(hang)
        with pytest.raises(CollectorError, match="still hangs; is it dead"):
            await thread.run(hang)
        assert begun == 1
        mended.set()
        assert thread.finished is not None
        await asyncio.to_thread(thread.finished.wait, 10)
        assert await thread.run(hang) == 2

    asyncio.run(scenario())


def test_a_process_ends_while_its_work_hangs() -> None:
    program = (
        "import asyncio, threading\n"
        "from collectors.blocking import Blocking\n"
        "async def main():\n"
        "    try:\n"
        "        await asyncio.wait_for(Blocking('a', 'b').run(threading.Event().wait), 0.05)\n"
        "    except TimeoutError:\n"
        "        print('late')\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "late\n", "")
