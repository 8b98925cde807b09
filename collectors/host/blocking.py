"""Runs a reading that may hang, such as one of a dead mount or of /proc, off the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from collectors.sample import CollectorError

Found = TypeVar("Found")


class Blocking(Generic[Found]):
    """One reading at a time, each on a daemon thread of its own.

    A thread that hangs holds up neither the loop nor the exit, and as long as it does no other is started.
    `name` names the thread, `suspect` is what to look at when it hangs.
    """

    def __init__(self, name: str, suspect: str) -> None:
        self._name = name
        self._suspect = suspect
        self._finished: threading.Event | None = None

    @property
    def finished(self) -> threading.Event | None:
        """Set once the last reading has ended; None before the first."""
        return self._finished

    async def run(self, work: Callable[[], Found]) -> Found:
        """What `work` gives or raises; raises CollectorError while an earlier reading still hangs."""
        if self._finished is not None and not self._finished.is_set():
            raise CollectorError(f"an earlier reading still hangs; {self._suspect}")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Found] = loop.create_future()
        finished = self._finished = threading.Event()

        def settle(give: Callable[[], None]) -> None:
            if not answer.done():  # else nobody waits any more
                give()

        def on_thread() -> None:
            give: Callable[[], None]
            try:
                give = partial(answer.set_result, work())
            except Exception as failure:  # whatever it is, the one who waits is to have it
                give = partial(answer.set_exception, failure)
            finished.set()
            with contextlib.suppress(RuntimeError):  # the loop may be closed by then
                loop.call_soon_threadsafe(settle, give)

        threading.Thread(target=on_thread, name=self._name, daemon=True).start()
        return await answer
