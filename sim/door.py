"""The simulated engine's door: arrivals from the traffic, the gate, and the queue behind it."""

from __future__ import annotations

import heapq
import math
from collections import deque
from typing import Final

from sim.request import Request
from sim.traffic import Traffic

NEVER: Final = math.inf


class Door:
    """Takes arrivals in or sends them away; whoever heeds Retry-After comes again."""

    def __init__(self, traffic: Traffic | None, epoch: int) -> None:
        self.epoch = epoch
        self.waiting: deque[Request] = deque()
        self.gate_reopens = -NEVER
        """Time until which new requests are answered 503."""
        self.gate_retry_after = 1.0
        self.arrived = 0
        self.rejected = 0
        self._traffic = traffic
        self._numbers = 0
        self._times: list[float] = []
        self._prompts: list[int] = []
        self._outputs: list[int] = []
        self._cached: list[int] = []
        self._index = 0
        self._retries: list[tuple[float, int, int, int, int]] = []
        self._next_arrival = NEVER
        self._refill()

    def _refill(self) -> None:
        if self._traffic is not None and self._index >= len(self._times):
            self._times, self._prompts, self._outputs, self._cached = self._traffic.chunk()
            self._index = 0
        upcoming = self._times[self._index] if self._times else NEVER
        self._next_arrival = min(upcoming, self._retries[0][0]) if self._retries else upcoming

    def accept(self, until: float) -> None:
        """Take the arrivals up to `until` into the queue, or send them away while the gate is closed."""
        while self._next_arrival <= until:
            if self._retries and self._retries[0][0] == self._next_arrival:
                time, _, prompt, output, cached = heapq.heappop(self._retries)
            else:
                i = self._index
                time, prompt, output, cached = (
                    self._times[i],
                    self._prompts[i],
                    self._outputs[i],
                    self._cached[i],
                )
                self._index = i + 1
            if time < self.gate_reopens:
                # The users' clients heed Retry-After.
                self.rejected += 1
                again = time + max(self.gate_retry_after, 1e-3)
                heapq.heappush(self._retries, (again, self.rejected, prompt, output, cached))
            else:
                self.submit(time, prompt, output, cached)
            self._refill()

    def submit(self, time: float, prompt: int, output: int, cached: int = 0) -> Request:
        """Put one request into the queue; it arrived at `time`."""
        self._numbers += 1
        self.arrived += 1
        request = Request(self._numbers, time, prompt, output, cached, self.epoch)
        self.waiting.append(request)
        return request

    def drop_arrivals(self, until: float) -> int:
        """Lose the arrivals up to `until`, as a server that is down does; the number lost."""
        lost = 0
        while self._next_arrival <= until:
            if self._retries and self._retries[0][0] == self._next_arrival:
                heapq.heappop(self._retries)
            else:
                self._index += 1
            lost += 1
            self._refill()
        return lost
