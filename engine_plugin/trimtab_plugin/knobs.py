"""The hot knobs of one vLLM V1 scheduler: which exist there, their bounds, and how they are written.

Everything here runs on the engine's own thread. The start-up values of the buffers are ceilings, and
`scheduler_config.max_num_batched_tokens` and `max_num_seqs` are never written: the workers share that object.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from trimtab_plugin.sizes import NAMES, OFF, PRIORITY, SizePriority

Values = dict[str, float]

BATCH = "batch_max_tokens"
PREFILL = "max_prefill_tokens"
LONG_PREFILL = "long_prefill_tokens"
SEQS = "max_num_seqs"
WATERMARK = "watermark"

ORDER = (BATCH, PREFILL, LONG_PREFILL, SEQS, WATERMARK, PRIORITY)
MIN_PREFILL_TOKENS = 16
MAX_WATERMARK = 0.5


class SchedulerKnobs:
    """The hot knobs of `scheduler`, an instance of vLLM's V1 scheduler (0.24 to 0.33)."""

    def __init__(self, scheduler: Any, queue_refusal: str | None = None) -> None:
        """`queue_refusal` says why priority by size is unsafe in this build; None: it is safe."""
        self._scheduler = scheduler
        self._config = scheduler.scheduler_config
        # 0.31 and later cap admission apart from the model runner's slots; before, one number does both and
        # the scheduler asserts at the end of each step that no more than that are running.
        self._ratchet = not hasattr(scheduler, "max_num_active_reqs")
        self._seqs_attribute = "max_num_running_reqs" if self._ratchet else "max_num_active_reqs"
        self._tokens_per_decode = 1 + int(getattr(scheduler, "num_spec_tokens", 0) or 0)
        self._cache = scheduler.kv_cache_manager
        self._blocks = int(scheduler.kv_cache_config.num_blocks)

        self.launch: Values = {BATCH: int(scheduler.max_num_scheduled_tokens)}
        self.ceilings: Values = {BATCH: int(scheduler.max_num_scheduled_tokens)}
        max_model_len = int(scheduler.max_model_len)
        self._chunked = bool(self._config.enable_chunked_prefill)
        if self._chunked:
            self.launch[PREFILL] = 0
            self.ceilings[PREFILL] = self.ceilings[BATCH]
            self.launch[LONG_PREFILL] = int(self._config.long_prefill_token_threshold)
            self.ceilings[LONG_PREFILL] = max(max_model_len, self.launch[LONG_PREFILL])
        self.launch[SEQS] = int(getattr(scheduler, self._seqs_attribute))
        self.ceilings[SEQS] = int(scheduler.max_num_running_reqs)
        if hasattr(self._cache, "watermark_blocks"):
            self.launch[WATERMARK] = float(self._config.watermark)
            self.ceilings[WATERMARK] = max(MAX_WATERMARK, self.launch[WATERMARK])
        self._sizes = SizePriority(scheduler)
        self._no_sizes = _no_priority(scheduler) or queue_refusal
        if self._no_sizes is None:
            self.launch[PRIORITY] = OFF
            self.ceilings[PRIORITY] = max(NAMES)

        self._chunk_floor = self._smallest_chunk(max_model_len)
        self._target: Values = dict(self.launch)
        self._written_budget = int(scheduler.max_num_scheduled_tokens)
        self._written_seqs = self.launch[SEQS]

    def _smallest_chunk(self, max_model_len: int) -> int:
        """Return the fewest prompt tokens a step must have room for, lest some prompt is never scheduled."""
        if not self._chunked:
            return max_model_len
        scheduler = self._scheduler
        floor = MIN_PREFILL_TOKENS
        if getattr(scheduler, "need_mamba_block_aligned_split", False):
            floor = max(floor, int(scheduler.block_size))
        # A chunk may not end within the look-ahead of the prompt's end, so it must hold more than twice that.
        floor = max(floor, 2 * int(getattr(scheduler, "num_prefill_lookahead", 0) or 0) + 1)
        if getattr(self._config, "disable_chunked_mm_input", False):
            floor = max(floor, int(getattr(scheduler, "max_num_encoder_input_tokens", 0) or 0))
        return min(floor, int(self.ceilings[BATCH]))

    def floors(self, values: Mapping[str, float]) -> Values:
        """Return the lowest working values beside `values`; 0 (off) is allowed for the two prefill knobs."""
        floors: Values = {BATCH: max(self._chunk_floor, int(values[SEQS]) * self._tokens_per_decode)}
        floors[BATCH] = min(floors[BATCH], self.launch[BATCH])
        if self._chunked:
            floors[PREFILL] = self._chunk_floor
            floors[LONG_PREFILL] = self._chunk_floor
        floors[SEQS] = 1
        if WATERMARK in self.launch:
            floors[WATERMARK] = 0.0
        if PRIORITY in self.launch:
            floors[PRIORITY] = OFF
        return floors

    def parse(self, values: Mapping[str, Any]) -> tuple[Values, list[str]]:
        """Check names and kinds of `values`; return them as numbers, and what is wrong in words."""
        parsed: Values = {}
        problems: list[str] = []
        for name, value in values.items():
            if name == PRIORITY and (refusal := self._no_sizes or (self._sizes.fault if value else None)):
                problems.append(f"{name} is refused: {refusal}")
            elif name not in self.launch:
                known = ", ".join(n for n in ORDER if n in self.launch)
                problems.append(f"unknown knob {name!r}: this engine has {known}")
            elif isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
                problems.append(f"{name} must be a number, not {value!r}")
            elif name == WATERMARK:
                parsed[name] = float(value)
            elif value != int(value):
                problems.append(f"{name} must be a whole number, not {value!r}")
            else:
                parsed[name] = int(value)
        return parsed, problems

    def problems(self, values: Mapping[str, float]) -> list[str]:
        """Return why the whole config `values` cannot serve; what the engine was started with always can."""
        floors = self.floors(values)
        found: list[str] = []
        for name in ORDER:
            if name not in self.launch or values[name] == self.launch[name]:
                continue
            value, floor, ceiling = values[name], floors[name], self.ceilings[name]
            if name in (PREFILL, LONG_PREFILL) and value == 0:
                continue
            if not floor <= value <= ceiling:
                off = ", or 0 for off" if name in (PREFILL, LONG_PREFILL) else ""
                found.append(f"{name} must be from {floor:g} to {ceiling:g}{off}, not {value:g}")
        return found

    @property
    def draining(self) -> bool:
        """More requests are running than the target admits."""
        return len(self._scheduler.running) > self._target[SEQS]

    def write(self, values: Mapping[str, float]) -> None:
        """Make `values` (checked, complete) what the next step is scheduled with."""
        self._target = dict(values)
        if LONG_PREFILL in values:
            self._config.long_prefill_token_threshold = int(values[LONG_PREFILL])
        if WATERMARK in values:
            self._cache.watermark_blocks = int(values[WATERMARK] * self._blocks)
        self._write_budget(int(values[BATCH]))
        self._write_seqs()
        if PRIORITY in values:
            self._sizes.set(int(values[PRIORITY]))

    def effective(self) -> Values:
        """Read the values back from the scheduler: what we set, unless somebody else has written since."""
        scheduler = self._scheduler
        read = dict(self._target)
        if scheduler.max_num_scheduled_tokens != self._written_budget:
            read[BATCH] = int(scheduler.max_num_scheduled_tokens)
        if getattr(scheduler, self._seqs_attribute) != self._written_seqs:
            read[SEQS] = int(getattr(scheduler, self._seqs_attribute))
        if LONG_PREFILL in read:
            read[LONG_PREFILL] = int(self._config.long_prefill_token_threshold)
        if WATERMARK in read:
            blocks = int(self._cache.watermark_blocks)
            if blocks != int(read[WATERMARK] * self._blocks):
                read[WATERMARK] = blocks / self._blocks
        if PRIORITY in read:
            read[PRIORITY] = self._sizes.mode
        return read

    @property
    def needs_each_step(self) -> bool:
        """Whether `before_step` has work to do while the target stays as it is."""
        return bool(self._target.get(PREFILL)) or self._target[SEQS] < self.ceilings[SEQS]

    def before_step(self) -> None:
        """Set this step's running cap (never under what runs) and its token budget (prefill cap)."""
        running = self._scheduler.running
        target = self._target
        seqs = len(running)
        budget = target[BATCH]
        if seqs > target[SEQS]:
            # While it drains, more decode than the target's budget was checked for: keep the tail from
            # starving.
            budget = max(budget, seqs * self._tokens_per_decode)
        if self._ratchet:
            self._write_seqs()
        cap = target.get(PREFILL)
        if cap:
            decode = 0
            if self._tokens_per_decode == 1:
                for request in running:
                    if not request.is_prefill_chunk:
                        decode += 1
            else:
                for request in running:
                    if not request.is_prefill_chunk:
                        decode += 1 + len(request.spec_token_ids)
            if decode + cap < budget:
                budget = decode + cap
        if budget != self._written_budget:
            self._write_budget(int(budget))

    def _write_budget(self, budget: int) -> None:
        self._scheduler.max_num_scheduled_tokens = self._written_budget = budget

    def _write_seqs(self) -> None:
        seqs = int(self._target[SEQS])
        if self._ratchet:
            seqs = max(seqs, len(self._scheduler.running))
        if seqs != self._written_seqs:
            setattr(self._scheduler, self._seqs_attribute, seqs)
            self._written_seqs = seqs


def _no_priority(scheduler: Any) -> str | None:
    """Why a scheduler does not heed priorities, or None."""
    policy = getattr(scheduler, "policy", None)
    name = getattr(policy, "value", policy)
    if name == "priority":
        return None
    return (
        f"the scheduler's policy is {name or 'unknown'}; start the engine with --scheduling-policy priority"
    )
