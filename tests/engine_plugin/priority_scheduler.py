"""The small scheduler of `fake_engine`, with vLLM's queues by priority before it."""

from __future__ import annotations

import heapq
import itertools
import types
from dataclasses import dataclass, field
from typing import Any

from tests.engine_plugin.fake_engine import FakeRequest, FakeScheduler

_IDS = itertools.count()


@dataclass(eq=False)
class Request(FakeRequest):
    """A request as vLLM's priority queue sees it; `priority` is 0 where the client gave none."""

    priority: int = 0
    arrival_time: float = 0.0
    request_id: str = field(default_factory=lambda: f"request-{next(_IDS)}")

    @property
    def num_prompt_tokens(self) -> int:
        """Tokens of its prompt."""
        return self.prompt

    def __lt__(self, other: Request) -> bool:
        return (self.priority, self.arrival_time, self.request_id) < (
            other.priority,
            other.arrival_time,
            other.request_id,
        )


class PriorityRequestQueue:
    """vLLM's, as far as it is used."""

    def __init__(self) -> None:
        self._heap: list[Request] = []

    def add_request(self, request: Request) -> None:
        heapq.heappush(self._heap, request)

    def pop(self, _: int) -> Request:
        return heapq.heappop(self._heap)

    def __getitem__(self, _: int) -> Request:
        return self._heap[0]

    def __len__(self) -> int:
        return len(self._heap)


class PriorityScheduler(FakeScheduler):
    """A scheduler whose policy is `policy`, with the queue of that name."""

    waiting: Any

    def __init__(self, policy: str = "priority", **more: Any) -> None:
        super().__init__(**more)
        self.policy = types.SimpleNamespace(value=policy)
        self.requests: dict[str, Request] = {}
        self.waiting = PriorityRequestQueue()
        self.skipped_waiting = PriorityRequestQueue()

    def _enqueue_waiting_request(self, request: Request) -> None:
        self.waiting.add_request(request)

    def add_request(self, request: Request) -> None:
        """Take a request in, as the engine's loop hands it over."""
        self._enqueue_waiting_request(request)
        self.requests[request.request_id] = request

    def order(self) -> list[str]:
        """Empty the queue; ids in the order in which they would be served."""
        return [self.waiting.pop(0).request_id for _ in range(len(self.waiting))]
