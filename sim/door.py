"""The simulated engine's door: arrivals from the traffic, the gate, and the queue behind it."""

from __future__ import annotations

import heapq
import math
from typing import Final

from sim.queue import Order, queue, rank
from sim.request import Request
from sim.traffic import Traffic

NEVER: Final = math.inf


class Door:
    """Takes arrivals in or sends them away; whoever heeds Retry-After comes again."""

    def __init__(self, traffic: Traffic | None, epoch: int, order: Order = "fcfs") -> None:
        self.epoch = epoch
        self.order: Order = order
        self.waiting = queue(order)
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
        self._lengths: list[tuple[int, int, int]] = []
        self._clients = traffic.clients if traffic is not None else 0
        self._closed = self._clients > 0
        self._comers = 0
        self._leaving = 0
        self._retries: list[tuple[float, int, int, int, int]] = []
        self._next_arrival = NEVER
        self._refill()
        if traffic is not None:
            for number in range(self._clients):
                # Not all at once: a server that starts finds its users one after another.
                self._ask_again(traffic.start + 0.1 * number)

    def _refill(self) -> None:
        if self._traffic is not None and not self._closed and self._index >= len(self._times):
            self._times, self._prompts, self._outputs, self._cached = self._traffic.chunk()
            self._index = 0
        upcoming = self._times[self._index] if self._index < len(self._times) else NEVER
        self._next_arrival = min(upcoming, self._retries[0][0]) if self._retries else upcoming

    def _ask_again(self, time: float) -> None:
        """A user of the closed loop who was answered at `time` asks for something else."""
        if self._leaving:
            self._leaving -= 1
            return
        traffic = self._traffic
        assert traffic is not None, "a closed loop without users"
        if self._index >= len(self._lengths):
            _, prompts, outputs, cached = traffic.chunk()
            self._lengths, self._index = list(zip(prompts, outputs, cached, strict=True)), 0
        self._come_at(time + traffic.pause_seconds(time), *self._lengths[self._index])
        self._index += 1
        self._refill()

    @property
    def users(self) -> int:
        """Users of the closed loop; 0 where requests come by themselves."""
        return self._clients

    def set_users(self, count: int, now: float) -> None:
        """Have so many users in a closed loop: new ones begin with a pause, those who go are answered first.

        Raises `ValueError` where the loop is open.
        """
        if not self._closed:
            raise ValueError("this traffic comes by itself: it has no users to count")
        more = count - self._clients
        self._clients = count
        if more < 0:
            # Those who think go first, evenly over the times at which they would have come.
            going = min(-more, len(self._retries))
            stay = len(self._retries) - going
            comers = sorted(self._retries)
            self._retries = [comers[place * len(comers) // stay] for place in range(stay)]
            self._leaving += -more - going
            self._refill_closed()
            return
        back = min(self._leaving, more)
        self._leaving -= back
        for _ in range(more - back):
            self._ask_again(now)

    def forget_lengths(self) -> None:
        """Users of the closed loop ask for what their traffic draws anew, from each one's next answer on."""
        if self._closed:
            self._lengths, self._index = [], 0

    def _refill_closed(self) -> None:
        heapq.heapify(self._retries)
        self._next_arrival = self._retries[0][0] if self._retries else NEVER

    def _come_at(self, time: float, prompt: int, output: int, cached: int) -> None:
        self._comers += 1
        heapq.heappush(self._retries, (time, self._comers, prompt, output, cached))

    def _take(self) -> tuple[float, int, int, int]:
        """The next arrival: time, prompt, output and cached tokens."""
        if self._retries and self._retries[0][0] == self._next_arrival:
            time, _, *lengths = heapq.heappop(self._retries)
            prompt, output, cached = lengths
        else:
            i = self._index
            time, prompt, output, cached = self._times[i], self._prompts[i], self._outputs[i], self._cached[i]
            self._index = i + 1
        return time, prompt, output, cached

    def accept(self, until: float) -> None:
        """Take the arrivals up to `until` into the queue, or send them away while the gate is closed."""
        while self._next_arrival <= until:
            time, prompt, output, cached = self._take()
            if time < self.gate_reopens:
                # The users' clients heed Retry-After.
                self.rejected += 1
                self._come_at(time + max(self.gate_retry_after, 1e-3), prompt, output, cached)
            else:
                self.submit(time, prompt, output, cached)
            self._refill()

    def submit(self, time: float, prompt: int, output: int, cached: int = 0) -> Request:
        """Put one request into the queue; it arrived at `time`."""
        self._numbers += 1
        self.arrived += 1
        request = Request(self._numbers, time, prompt, output, cached, self.epoch, rank(self.order, prompt))
        self.waiting.append(request)
        return request

    def drop_arrivals(self, until: float) -> int:
        """Lose the arrivals up to `until`, as a server that is down does; the number lost.

        The users of a closed loop come again with something else.
        """
        lost = 0
        while self._next_arrival <= until:
            self._take()
            lost += 1
            self._refill()
        for _ in range(lost if self._closed else 0):
            self._ask_again(until)
        return lost

    def put_off(self, until: float, again: float) -> int:
        """Let the arrivals up to `until` come from `again` on, as clients do that retry a refused connection.

        Returns their number. They come a twentieth of a second apart, as no two of them wait equally long.
        """
        held = []
        while self._next_arrival <= until:
            held.append(self._take()[1:])
            self._refill()
        for place, lengths in enumerate(held):
            self._come_at(again + 0.05 * place, *lengths)
        self._refill()
        return len(held)
