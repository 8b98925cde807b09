"""The engine model: vLLM V1's scheduler and a clock of steps.

Each step serves running decodes first, then partly prefilled requests, then waiting ones, into one token budget. Steps
are the only events: a request is an object, a token is not. What decodes do is kept in sums (how many, how much
context) and in two calendars by step number (who finishes, who needs a KV block), so that a step without an event
costs a few operations whatever the batch.

The model is deterministic in its seed, and independent of how `run` is sliced: a step that has begun is finished at
its end, whatever happens in between.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from typing import Final

from change.engine import GAP_BASE_SECONDS, GAP_BUCKETS, GAP_RATIO
from sim.physics import KV_BLOCK_TOKENS, Jitter, Physics, tables
from sim.traffic import Traffic

ITL_BOUNDS: Final = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)  # fmt: skip
ITERATION_BOUNDS: Final = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)

_NEVER = math.inf
_GAP_SCALE = 1.0 / math.log(GAP_RATIO)
_RING = 16384
_EPOCHS_KEPT = 64

Finished = tuple[
    int, float, float | None, float, int, int | None, int, int, int, int, float, float, float, int, str
]
"""The fields of `change.engine.RequestRecord`, in its order."""


class Request:
    """One request inside the engine."""

    __slots__ = (
        "arrival",
        "block_step",
        "blocks",
        "cached",
        "done",
        "epoch_arrival",
        "epoch_first",
        "finish",
        "finish_step",
        "first_token",
        "generated",
        "last_token",
        "number",
        "output",
        "preemptions",
        "prompt",
        "scheduled",
        "start_step",
        "todo",
    )

    def __init__(
        self, number: int, arrival: float, prompt: int, output: int, cached: int, epoch: int
    ) -> None:
        self.number = number
        self.arrival = arrival
        self.prompt = prompt
        self.output = output
        self.cached = cached
        self.epoch_arrival = epoch
        self.epoch_first: int | None = None
        self.todo = prompt - cached
        """Prompt tokens still to prefill."""
        self.done = cached
        """Tokens whose KV is computed, as of the last prefill."""
        self.blocks = 0
        self.generated = 0
        """Output tokens emitted up to the end of the last prefill, or all of them at the finish."""
        self.scheduled = -1.0
        self.first_token: float | None = None
        self.last_token = 0.0
        self.finish: float | None = None
        self.start_step = 0
        """Step whose end completed the (last) prefill; 0 while it waits or prefills."""
        self.finish_step = 0
        self.block_step = 0
        self.preemptions = 0


class Engine:
    """One engine: requests in, finished requests and token gaps out, in virtual time."""

    def __init__(
        self,
        physics: Physics,
        traffic: Traffic | None,
        jitter: Jitter,
        *,
        start: float,
        epoch: int = 0,
        records: bool = True,
    ) -> None:
        """Begin idle at `start` (Unix seconds) with knobs unset: call `serve` before `run`."""
        self.physics = physics
        self.clock = start
        self._tables = tables(physics)
        self._traffic = traffic
        self._jitter = jitter
        self._factors = jitter.chunk()
        self._factor = 0
        self._keep_records = records

        # knobs in effect
        self._batch_max_tokens = 0
        self._max_prefill_tokens = 0
        self._long_prefill_tokens = 0
        self.max_num_seqs = 0
        self._watermark_blocks = 0

        # requests
        self.waiting: deque[Request] = deque()
        self.running: dict[int, Request] = {}
        self._prefilling: list[Request] = []
        self._finish_at: dict[int, list[Request]] = {}
        self._block_at: dict[int, list[Request]] = {}
        self._decoding = 0
        self._context = 0
        self.free_blocks = physics.kv_blocks
        self._numbers = 0

        # the step in flight
        self._step = 0
        self._end = _NEVER
        self._duration = 0.0
        self._chunks: list[tuple[Request, int]] = []

        # arrivals
        self._times: list[float] = []
        self._prompts: list[int] = []
        self._outputs: list[int] = []
        self._cached: list[int] = []
        self._index = 0
        self._retries: list[tuple[float, int, int, int, int]] = []
        self._next_arrival = _NEVER
        self._refill()

        # the gate and the lease
        self.gate_reopens = -_NEVER
        """Time until which new requests are answered 503."""
        self.gate_retry_after = 1.0
        self.deadline = _NEVER
        self.on_deadline: Callable[[float], None] | None = None
        """Called between two steps once `deadline` has passed."""

        # what came out
        self.epoch = epoch
        self.gaps: dict[int, list[int]] = {}
        self.begin_epoch(epoch)
        self.ring: deque[Finished] = deque(maxlen=_RING)
        self.arrived = 0
        self.completed = 0
        self.rejected = 0
        self.preemptions = 0
        self.steps = 0
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.generation_tokens = 0
        self.itl_counts = [0] * (len(ITL_BOUNDS) + 1)
        self.itl_sum = 0.0
        self.iteration_counts = [0] * (len(ITERATION_BOUNDS) + 1)
        self.iteration_sum = 0
        self.first_tokens: list[float] = []
        """Times to first token since the page of metrics last took them."""
        self.finished: list[Finished] = []
        """Finished requests since the page of metrics last took them."""
        self.busy_seconds = 0.0
        self.computed_tokens = 0

    # ------------------------------------------------------------------ knobs

    def serve(
        self,
        *,
        batch_max_tokens: int,
        max_prefill_tokens: int,
        long_prefill_tokens: int,
        max_num_seqs: int,
        watermark: float,
    ) -> None:
        """Set the scheduler's limits, in effect from the next step."""
        self._batch_max_tokens = batch_max_tokens
        self._max_prefill_tokens = max_prefill_tokens
        self._long_prefill_tokens = long_prefill_tokens
        self.max_num_seqs = max_num_seqs
        self._watermark_blocks = int(watermark * self.physics.kv_blocks)

    def begin_epoch(self, epoch: int) -> None:
        """Count gaps, first tokens and finishes from now on under `epoch`."""
        self.epoch = epoch
        self.gaps[epoch] = [0] * GAP_BUCKETS
        if len(self.gaps) > _EPOCHS_KEPT:
            del self.gaps[next(iter(self.gaps))]

    # ------------------------------------------------------------------ requests

    def _refill(self) -> None:
        if self._traffic is not None and self._index >= len(self._times):
            self._times, self._prompts, self._outputs, self._cached = self._traffic.chunk()
            self._index = 0
        upcoming = self._times[self._index] if self._times else _NEVER
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

    def generated(self, request: Request) -> int:
        """Output tokens of a request so far."""
        if request.start_step and request.finish is None:
            return request.generated + (self._last_step - request.start_step)
        return request.generated

    @property
    def _last_step(self) -> int:
        """Number of the last step that has ended."""
        return self._step if self._end == _NEVER else self._step - 1

    @property
    def decoding(self) -> int:
        """Requests that generate."""
        return self._decoding

    @property
    def context_tokens(self) -> int:
        """Tokens that the generating requests have behind them, as of the last step's end."""
        return self._context

    def drop_all(self) -> int:
        """Lose every request inside, as a killed engine does; the number lost."""
        lost = len(self.waiting) + len(self.running)
        self.waiting.clear()
        self.running.clear()
        self._prefilling = []
        self._finish_at.clear()
        self._block_at.clear()
        self._decoding = self._context = 0
        self.free_blocks = self.physics.kv_blocks
        self._end = _NEVER
        self._chunks = []
        return lost

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

    # ------------------------------------------------------------------ steps

    def run(self, until: float) -> None:
        """Live up to `until` (Unix seconds)."""
        # One long function over local names: this loop is where a virtual campaign spends its time.
        physics = self.physics
        token_cost, thrash_cost, sequence_cost = (
            self._tables.tokens,
            self._tables.thrash,
            self._tables.sequences,
        )
        kv_read, attention = physics.kv_read_seconds, physics.attention_seconds
        waiting, running = self.waiting, self.running
        finish_at, block_at = self._finish_at, self._block_at
        factors, factor = self._factors, self._factor
        n_factors = len(factors)
        itl_counts, iteration_counts = self.itl_counts, self.iteration_counts
        log, bisect = math.log, bisect_left
        decoding, context, step = self._decoding, self._context, self._step
        end, duration = self._end, self._duration
        chunks, prefilling = self._chunks, self._prefilling
        # A step counts in the epoch in which it ends, as its tokens do for the plugin.
        epoch = self.epoch
        gaps = self.gaps[epoch]
        now = self.clock
        itl_sum = self.itl_sum
        steps = tokens_out = iteration_sum = 0
        busy, computed = self.busy_seconds, self.computed_tokens

        while True:
            if end == _NEVER:
                # Idle: sleep until somebody comes or the lease runs out.
                if not waiting:
                    wake = self._next_arrival
                    if self.deadline < wake:
                        if self.deadline > until:
                            break
                        now = max(now, self.deadline)
                        self._expire(now)
                        continue
                    if wake > until:
                        break
                    now = wake
                    self.accept(now)
                    if not waiting:
                        continue
            else:
                if end > until:
                    break
                # ---- the step in flight ends: its tokens come out
                now = end
                end = _NEVER
                steps += 1
                busy += duration
                prefilled = 0
                if decoding:
                    bucket = int(log(duration / GAP_BASE_SECONDS) * _GAP_SCALE)
                    gaps[bucket if bucket < GAP_BUCKETS else GAP_BUCKETS - 1] += decoding
                    itl_counts[bisect(ITL_BOUNDS, duration)] += decoding
                    itl_sum += duration * decoding
                    tokens_out += decoding
                    context += decoding
                if chunks:
                    emitted = decoding
                    for request, size in chunks:
                        prefilled += size
                        request.todo -= size
                        request.done += size
                        if request.todo == 0:
                            # The prompt is done: the same step emits a token.
                            prefilling.remove(request)
                            tokens_out += 1
                            request.generated += 1
                            if request.first_token is None:
                                request.first_token = now
                                request.epoch_first = epoch
                                self.prompt_tokens += request.prompt
                                self.cached_tokens += request.cached
                                self.first_tokens.append(now - request.arrival)
                            else:
                                gap = now - request.last_token
                                bucket = int(log(gap / GAP_BASE_SECONDS) * _GAP_SCALE)
                                gaps[bucket if bucket < GAP_BUCKETS else GAP_BUCKETS - 1] += 1
                                itl_counts[bisect(ITL_BOUNDS, gap)] += 1
                                itl_sum += gap
                            left = request.output - request.generated
                            if left == 0:
                                self._finish(request, now, epoch)
                                continue
                            request.start_step = step
                            request.finish_step = last = step + left
                            decoding += 1
                            context += request.done
                            finish_at.setdefault(last, []).append(request)
                            request.block_step = due = (
                                step + request.blocks * KV_BLOCK_TOKENS - request.done + 1
                            )
                            if due <= last:
                                block_at.setdefault(due, []).append(request)
                    chunks = []
                else:
                    emitted = decoding
                iteration_counts[bisect(ITERATION_BOUNDS, emitted + prefilled)] += 1
                iteration_sum += emitted + prefilled
                if step in finish_at:
                    for request in finish_at.pop(step):
                        decoding -= 1
                        context -= request.done + step - request.start_step
                        request.generated = request.output
                        self._finish(request, now, epoch)
                if now >= self._next_arrival:
                    self.accept(now)

            if now >= self.deadline:
                self._expire(now)
            if not running and not waiting:
                continue

            # ---- schedule the next step
            step += 1
            epoch = self.epoch
            gaps = self.gaps[epoch]
            preempted = False
            if step in block_at:
                self._decoding, self._context, self._step = decoding, context, step
                preempted = self._grow(step, now)
                decoding, context = self._decoding, self._context

            prefilled = 0
            pairs = 0.0
            read = context
            if waiting or prefilling:
                room = self._batch_max_tokens
                cap = self._max_prefill_tokens
                if cap and decoding + cap < room:
                    room = decoding + cap
                room -= decoding
                limit = self._long_prefill_tokens
                if not limit or len(running) + len(waiting) == 1:
                    limit = room
                for request in prefilling:
                    if room <= 0:
                        break
                    size = request.todo
                    if size > limit:
                        size = limit
                    if size > room:
                        size = room
                    chunks.append((request, size))
                    room -= size
                    prefilled += size
                    pairs += size * (request.done + 0.5 * size)
                    read += request.done
                if not preempted:
                    while waiting and room > 0 and len(running) < self.max_num_seqs:
                        request = waiting[0]
                        size = request.todo
                        need = -(-(size + request.done) // KV_BLOCK_TOKENS)
                        free = self.free_blocks - need
                        if free < self._watermark_blocks and (running or free < 0):
                            break
                        waiting.popleft()
                        self.free_blocks = free
                        request.blocks = need
                        if request.scheduled < 0.0:
                            request.scheduled = now
                        running[request.number] = request
                        prefilling.append(request)
                        if size > limit:
                            size = limit
                        if size > room:
                            size = room
                        chunks.append((request, size))
                        room -= size
                        prefilled += size
                        pairs += size * (request.done + 0.5 * size)
                        read += request.done

            sequences = decoding + len(chunks)
            base = token_cost[decoding + prefilled] + sequence_cost[sequences]
            if factor == n_factors:
                factors = self._jitter.chunk()
                factor = 0
            duration = (base + thrash_cost[prefilled] + kv_read * read + attention * pairs) * factors[factor]
            factor += 1
            end = now + duration
            if chunks:
                computed += decoding + prefilled
                continue

            # ---- decodes only, and no event in sight: leap from step to step
            stop = self._next_arrival
            if self.deadline < stop:
                stop = self.deadline
            if until < stop:
                stop = until
            if waiting:
                computed += decoding
                continue
            first = step
            itl_bucket = bisect(ITERATION_BOUNDS, decoding)
            while end < stop and step not in finish_at and step + 1 not in block_at:
                bucket = int(log(duration / GAP_BASE_SECONDS) * _GAP_SCALE)
                gaps[bucket if bucket < GAP_BUCKETS else GAP_BUCKETS - 1] += decoding
                itl_counts[bisect(ITL_BOUNDS, duration)] += decoding
                itl_sum += duration * decoding
                busy += duration
                context += decoding
                now = end
                step += 1
                if factor == n_factors:
                    factors = self._jitter.chunk()
                    factor = 0
                duration = (base + kv_read * context) * factors[factor]
                factor += 1
                end = now + duration
            leapt = step - first
            if leapt:
                steps += leapt
                tokens_out += decoding * leapt
                iteration_counts[itl_bucket] += leapt
                iteration_sum += decoding * leapt
            computed += decoding * (leapt + 1)

        self._factors, self._factor = factors, factor
        self._decoding, self._context, self._step = decoding, context, step
        self._end, self._duration = end, duration
        self._chunks = chunks
        self.itl_sum = itl_sum
        self.steps += steps
        self.generation_tokens += tokens_out
        self.iteration_sum += iteration_sum
        self.busy_seconds, self.computed_tokens = busy, computed
        if self._next_arrival <= until:
            self.accept(until)
        self.clock = until

    def _expire(self, now: float) -> None:
        self.deadline = _NEVER
        if self.on_deadline is not None:
            self.on_deadline(now)

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

    def _grow(self, step: int, now: float) -> bool:
        """Give a KV block to each decode that needs one in `step`; preempt the last admitted where none is left."""
        preempted = False
        # Oldest first, as the scheduler walks them: the last admitted is the one to go.
        due = sorted(self._block_at.pop(step), key=lambda request: request.number)
        for request in due:
            if request.block_step != step:
                continue
            while self.free_blocks == 0:
                victim = next(reversed(self.running.values()))
                self._preempt(victim, step, now)
                preempted = True
                if victim is request:
                    break
            else:
                self.free_blocks -= 1
                request.blocks += 1
                request.block_step = later = step + KV_BLOCK_TOKENS
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
