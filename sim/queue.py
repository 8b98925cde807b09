"""The queue before the simulated engine: as they came, or by priority from the size of the prompt.

As in vLLM: a lower number is served sooner, equal ones as they arrived, and where a decode finds no KV block the
running request with the highest number, the newest of these, goes back. The classes are those of the engine plugin.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator
from typing import Final, Literal

from sim.request import Request

Order = Literal["fcfs", "long_first", "short_first"]
ORDERS: Final[tuple[Order, ...]] = ("fcfs", "long_first", "short_first")
LONG_TOKENS: Final = 2048
MEDIUM_TOKENS: Final = 512
RANKS: Final = (16, 32, 64)

_Entry = tuple[int, float, int, Request]


def size_class(prompt_tokens: int) -> int:
    """0 for a long prompt, 1 for a medium one, 2 for a short one."""
    return 0 if prompt_tokens > LONG_TOKENS else 1 if prompt_tokens > MEDIUM_TOKENS else 2


def rank(order: Order, prompt_tokens: int) -> int:
    """Priority of a prompt of that many tokens: 0 for all without an order."""
    if order == "fcfs":
        return 0
    place = size_class(prompt_tokens)
    return RANKS[place] if order == "long_first" else RANKS[2 - place]


class ByPriority:
    """A heap with as much of a deque's ways as the engine uses."""

    def __init__(self) -> None:
        self._heap: list[_Entry] = []

    def append(self, request: Request) -> None:
        """Put a request where it belongs."""
        heapq.heappush(self._heap, (request.priority, request.arrival, request.number, request))

    def appendleft(self, request: Request) -> None:
        """The same: in a queue by priority there is no front to put anything to."""
        self.append(request)

    def popleft(self) -> Request:
        """Take the next one."""
        return heapq.heappop(self._heap)[3]

    def clear(self) -> None:
        """Forget all."""
        self._heap.clear()

    def __getitem__(self, place: int) -> Request:
        if place:
            raise IndexError("only the next request of a queue by priority can be looked at")
        return self._heap[0][3]

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[Request]:
        return (entry[3] for entry in sorted(self._heap))


Waiting = deque[Request] | ByPriority


def queue(order: Order) -> Waiting:
    """An empty queue of that order."""
    return deque() if order == "fcfs" else ByPriority()
