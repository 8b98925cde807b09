"""The requests inside the simulated engine: who runs, who finishes when, who needs which KV block when.

What decodes do is kept in sums (how many, how much context) and in two calendars by step number, so that a step
without an event costs a few operations whatever the batch.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from sim.door import NEVER, Door
from sim.physics import Physics
from sim.queue import Order
from sim.request import Finished, Request
from sim.traffic import Traffic

RING: Final = 16384


class Batch(Door):
    """Admitted requests and their KV blocks."""

    def __init__(
        self, physics: Physics, traffic: Traffic | None, epoch: int, *, records: bool, order: Order = "fcfs"
    ) -> None:
        super().__init__(traffic, epoch, order)
        self.physics = physics
        self.running: dict[int, Request] = {}
        self.free_blocks = physics.kv_blocks
        self.ring: deque[Finished] = deque(maxlen=RING)
        self.finished: list[Finished] = []
        """Finished requests since the page of metrics last took them."""
        self.completed = 0
        self.preemptions = 0
        self._keep_records = records
        self._prefilling: list[Request] = []
        self._finish_at: dict[int, list[Request]] = {}
        self._block_at: dict[int, list[Request]] = {}
        self._decoding = 0
        self._context = 0

        # the step in flight
        self._step = 0
        self._end = NEVER
        self._duration = 0.0
        self._chunks: list[tuple[Request, int]] = []

    def generated(self, request: Request) -> int:
        """Output tokens of a request so far."""
        if request.start_step and request.finish is None:
            return request.generated + (self._last_step - request.start_step)
        return request.generated

    @property
    def _last_step(self) -> int:
        """Number of the last step that has ended."""
        return self._step if self._end == NEVER else self._step - 1

    @property
    def decoding(self) -> int:
        """Requests that generate."""
        return self._decoding

    @property
    def context_tokens(self) -> int:
        """Tokens that the generating requests have behind them, as of the last step's end."""
        return self._context

    def drop_all(self, now: float) -> int:
        """Lose every request inside, as a killed engine does; the number lost."""
        lost = len(self.waiting) + len(self.running)
        for _ in range(lost if self._closed else 0):
            self._ask_again(now)
        self.waiting.clear()
        self.running.clear()
        self._prefilling = []
        self._finish_at.clear()
        self._block_at.clear()
        self._decoding = self._context = 0
        self.free_blocks = self.physics.kv_blocks
        self._end = NEVER
        self._chunks = []
        return lost

    def _finish(self, request: Request, now: float, epoch: int) -> None:
        del self.running[request.number]
        self.free_blocks += request.blocks
        request.blocks = 0
        request.finish = now
        self.completed += 1
        first = request.first_token
        assert first is not None
        row: Finished = (
            self.completed,
            request.arrival,
            first,
            now,
            request.epoch_arrival,
            request.epoch_first,
            epoch,
            request.prompt,
            request.output,
            request.cached,
            request.scheduled - request.arrival,
            first - request.scheduled,
            now - first,
            request.preemptions,
            "length",
        )
        self.ring.append(row)
        if self._keep_records:
            self.finished.append(row)
        if self._closed:
            self._ask_again(now)

    def _grow(self, step: int, now: float) -> bool:
        """Give a KV block to each decode that needs one in `step`; preempt the last admitted where none is left.

        By priority it is not the last admitted but who comes last by rank and arrival.
        """
        preempted = False
        # Oldest first, as the scheduler walks them: the last admitted is the one to go.
        due = sorted(self._block_at.pop(step), key=lambda request: request.number)
        for request in due:
            if request.block_step != step:
                continue
            while self.free_blocks == 0:
                victim = (
                    next(reversed(self.running.values()))
                    if self.order == "fcfs"
                    else max(self.running.values(), key=lambda one: (one.priority, one.arrival))
                )
                self._preempt(victim, step, now)
                preempted = True
                if victim is request:
                    break
            else:
                self.free_blocks -= 1
                request.blocks += 1
                request.block_step = later = step + self.physics.block_tokens
                if later <= request.finish_step:
                    self._block_at.setdefault(later, []).append(request)
        return preempted

    def _preempt(self, victim: Request, step: int, now: float) -> None:
        del self.running[victim.number]
        self.free_blocks += victim.blocks
        victim.blocks = 0
        if victim.start_step:
            decoded = step - 1 - victim.start_step
            self._decoding -= 1
            self._context -= victim.done + decoded
            victim.generated += decoded
            # A decode's last token came out at the end of the step before.
            victim.last_token = now
            mates = self._finish_at[victim.finish_step]
            mates.remove(victim)
            if not mates:
                del self._finish_at[victim.finish_step]
            waits = self._block_at.get(victim.block_step)
            if waits is not None and victim in waits:
                waits.remove(victim)
                if not waits:
                    del self._block_at[victim.block_step]
        else:
            self._prefilling.remove(victim)
        victim.start_step = victim.block_step = 0
        victim.todo = victim.prompt + victim.generated
        victim.done = 0
        victim.preemptions += 1
        self.preemptions += 1
        self.waiting.appendleft(victim)
