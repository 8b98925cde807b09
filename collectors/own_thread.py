"""A daemon thread for calls that may block for ever: a dead file system, a driver that hangs."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from collectors.sample import CollectorError

T = TypeVar("T")


class OwnThread:
    """Does one piece of work at a time; it holds up neither the loop nor the exit of the process.

    `name` is the thread's, `suspect` says what is probably wrong while an earlier piece still hangs.
    """

    def __init__(self, name: str, suspect: str) -> None:
        self._name = name
        self._suspect = suspect
        self.finished = threading.Event()
        self.finished.set()

    async def run(self, work: Callable[[], T]) -> T:
        """Do the work and return its result, or raise what it raised.

        Raises CollectorError while an earlier piece still hangs.
        """
        if not self.finished.is_set():
            raise CollectorError(f"an earlier reading still hangs; {self._suspect}")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        finished = self.finished = threading.Event()

        def give(result: Callable[[], None]) -> None:
            if not answer.done():  # else nobody waits any more
                result()

        def do() -> None:
            try:
                result = partial(answer.set_result, work())
            except Exception as failure:  # the one who waits is to have it
                result = partial(answer.set_exception, failure)
            finished.set()
            with contextlib.suppress(RuntimeError):  # the loop may be closed by then
                loop.call_soon_threadsafe(give, result)

        threading.Thread(target=do, name=self._name, daemon=True).start()
        return await answer
