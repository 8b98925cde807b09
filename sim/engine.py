"""The engine model: vLLM V1's scheduler and a clock of steps.

Each step serves running decodes first, then partly prefilled requests, then waiting ones, into one token budget. Steps
are the only events: a request is an object, a token is not.

The model is deterministic in its seed, and independent of how `run` is sliced: a step that has begun is finished at
its end, whatever happens in between.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from typing import Final

from change.engine import GAP_BASE_SECONDS, GAP_BUCKETS, GAP_RATIO
from sim.batch import Batch
from sim.door import NEVER
from sim.physics import Jitter, Physics, tables
from sim.queue import Order
from sim.traffic import Traffic

ITL_BOUNDS: Final = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)  # fmt: skip
ITERATION_BOUNDS: Final = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)

_GAP_SCALE = 1.0 / math.log(GAP_RATIO)
_EPOCHS_KEPT = 64
HANG_SECONDS: Final = 1e9
"""A step that hangs ends in decades."""


class Engine(Batch):
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
        order: Order = "fcfs",
    ) -> None:
        """Begin idle at `start` (Unix seconds) with knobs unset: call `serve` before `run`.

        `order` is how the engine serves those that wait: as they came, or by the size of their prompts.
        """
        super().__init__(physics, traffic, epoch, records=records, order=order)
        self.clock = start
        self._tables = tables(physics)
        self._jitter = jitter
        self._factors = jitter.chunk()
        self._factor = 0

        # knobs in effect
        self._batch_max_tokens = 0
        self._max_prefill_tokens = 0
        self._long_prefill_tokens = 0
        self.max_num_seqs = 0
        self._watermark_blocks = 0

        # the lease
        self.deadline = NEVER
        self.on_deadline: Callable[[float], None] | None = None
        """Called between two steps once `deadline` has passed."""

        # what came out
        self.gaps: dict[int, list[int]] = {}
        self.begin_epoch(epoch)
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
        self.busy_seconds = 0.0
        self.computed_tokens = 0
        self.largest_prefill = 0
        """Most prompt tokens in one step since somebody set this back."""

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

    def live_beside(self, physics: Physics, noise: float) -> None:
        """Take other step costs of the same KV cache, and `noise` times the noise, from the next step on."""
        self.physics = physics
        self._tables = tables(physics)
        self._factors = self._jitter.scaled(noise)

    def begin_epoch(self, epoch: int) -> None:
        """Count gaps, first tokens and finishes from now on under `epoch`."""
        self.epoch = epoch
        self.gaps[epoch] = [0] * GAP_BUCKETS
        if len(self.gaps) > _EPOCHS_KEPT:
            del self.gaps[next(iter(self.gaps))]

    def hang(self) -> bool:
        """Never end the step in flight; False if there is none. Only a restart helps."""
        if self._end == NEVER:
            return False
        self._end = max(self._end, self.clock + HANG_SECONDS)
        return True

    def rebuild(self, physics: Physics) -> None:
        """Become an engine started anew with other hidden parameters; nothing may be inside."""
        self.physics = physics
        self._tables = tables(physics)
        self.free_blocks = physics.kv_blocks

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
        block_tokens = physics.block_tokens
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
            if end == NEVER:
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
                end = NEVER
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
                            request.block_step = due = step + request.blocks * block_tokens - request.done + 1
                            if due <= last:
                                block_at.setdefault(due, []).append(request)
                    chunks = []
                    if prefilled > self.largest_prefill:
                        self.largest_prefill = prefilled
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
                        need = -(-(size + request.done) // block_tokens)
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
        self.deadline = NEVER
        if self.on_deadline is not None:
            self.on_deadline(now)
