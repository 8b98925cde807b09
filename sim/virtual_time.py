"""An event loop whose time is a node's: whatever waits in it lets the node live on, and nothing waits for real."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

from sim.node import Node

T = TypeVar("T")
_RESOLUTION_SECONDS = 1e-5
"""Unix seconds as floats are a quarter of a microsecond apart: what is due so soon is due now."""


THREAD_SECONDS = 30.0
"""Longest real wait for work in a thread."""


class _LivingSelector(selectors.SelectSelector):
    """Lets the node live where another selector would wait."""

    def __init__(self, node: Node) -> None:
        super().__init__()
        self._node = node

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready:
            return ready
        if timeout is None:
            # Only work in a thread, which virtual time knows nothing of, can end such a wait.
            ready = super().select(THREAD_SECONDS)
            if not ready:
                raise RuntimeError("everything waits for something that never comes")
            return ready
        if timeout > 0:
            self._node.advance(self._node.now + timeout)
        return []


class _NodeLoop(asyncio.SelectorEventLoop):
    def __init__(self, node: Node) -> None:
        self._node = node
        super().__init__(_LivingSelector(node))
        self._clock_resolution = _RESOLUTION_SECONDS

    def time(self) -> float:
        return self._node.now


class NodeClock:
    """`change.clock.Clock` of a node, inside `live`."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def now(self) -> float:
        """Return the node's Unix seconds."""
        return self._node.now

    async def sleep(self, seconds: float) -> None:
        """Let the node live for `seconds`."""
        await asyncio.sleep(seconds)


def live(node: Node, work: Coroutine[Any, Any, T]) -> T:
    """Run `work` in the node's time; it must wait for nothing but time."""
    with asyncio.Runner(loop_factory=lambda: _NodeLoop(node)) as runner:
        return runner.run(work)
