"""The 235B guide's engine: weights in int4 on four 32 GB cards, block size honoured, more users than it can serve.

The guide's own values are a block size of 64, four pipeline stages, prefill capped at 512 and a budget of 8192 tokens;
it tells of 342 -> 597 tokens/s with short prompts, 87 -> 156 with long ones and 214 -> 382 (+78.5%) with the mix.
"""

from __future__ import annotations

import math

import numpy as np

from change.engine import Values
from change.server import Settings
from sim.cold import SWAP_SPACE_GONE, ColdSide, StartPhysics, forced_to_128
from sim.physics import Physics
from sim.traffic import Arrivals, Mix

LAUNCH: Settings = {
    "block_size": 128,
    "tensor_parallel_size": 4,
    "pipeline_parallel_size": 1,
    "batch_max_tokens": 2048,
    "max_num_seqs": 256,
    "gpu_memory_utilization": 0.9,
}
GUIDE: Settings = {
    "block_size": 64,
    "tensor_parallel_size": 1,
    "pipeline_parallel_size": 4,
    "batch_max_tokens": 8192,
}
GUIDE_HOT: Values = {"max_prefill_tokens": 512, "batch_max_tokens": 8192}
CEILINGS: Values = {
    "batch_max_tokens": 2048,
    "max_prefill_tokens": 2048,
    "long_prefill_tokens": 2048,
    "max_num_seqs": 256,
    "watermark": 0.5,
}
"""What the launch flags leave room for."""

HONOURED = ColdSide(
    launch=LAUNCH,
    gone={"swap_space": SWAP_SPACE_GONE},
    allow=("pipeline_parallel_size", "tensor_parallel_size"),
)
FORCED = ColdSide(
    launch={
        name: value for name, value in LAUNCH.items() if name not in ("batch_max_tokens", "max_num_seqs")
    },
    effective=forced_to_128,
    gone={"swap_space": SWAP_SPACE_GONE},
    allow=("swap_space",),
)
"""An engine as it is on Ascend by default."""

CLIENTS = 48


def users() -> Arrivals:
    """More users than the batch holds, so that a queue always stands and tokens per second tell of the config."""
    return Arrivals(rate=4.0, clients=CLIENTS, think_seconds=1.0, mix=Mix(output_low=64, output_high=128))


def plain() -> tuple[Physics, StartPhysics]:
    """The guide's engine without any draw, set so that the guide's values are the best and gain what it tells."""
    physics = Physics(
        overhead_seconds=0.00742,
        weight_read_seconds=0.03698,
        token_seconds=73.95e-6,
        roofline_sharpness=4.0,
        kv_read_seconds=0.2472e-6,
        attention_seconds=6.18e-9,
        thrash_knee_tokens=720.0,
        thrash_seconds=0.0618,
        thrash_sharpness=24.0,
        spill_seconds=309e-6,
        eager_seconds=0.01483,
        sequence_seconds=24.7e-6,
        batch_knee=256.0,
        crowd_seconds=0.0,
        kv_blocks=160,
        jitter=0.04,
        drift=0.02,
        weather=0.02,
    )
    starts = StartPhysics(
        step_reduce_seconds=0.0205,
        token_reduce_seconds=73.95e-6,
        stage_seconds=0.00099,
        best_block=64.0,
        block_seconds=2.06e-6,
        memory_share=0.91,
        load_seconds=540.0,
        start_sd=0.012,
    )
    return physics, starts


def drawn(rng: np.random.Generator) -> tuple[Physics, StartPhysics]:
    """One seed's engine: every cost a little another, and the best values beside the guide's or at them."""
    physics = Physics(
        overhead_seconds=rng.uniform(0.006, 0.009),
        weight_read_seconds=rng.uniform(0.032, 0.040),
        token_seconds=rng.uniform(62e-6, 82e-6),
        roofline_sharpness=rng.uniform(3.0, 5.0),
        kv_read_seconds=rng.uniform(0.18e-6, 0.36e-6),
        attention_seconds=rng.uniform(5e-9, 7e-9),
        thrash_knee_tokens=_log_uniform(rng, 500.0, 900.0),
        thrash_seconds=rng.uniform(0.04, 0.09),
        thrash_sharpness=rng.uniform(14.0, 28.0),
        spill_seconds=rng.uniform(200e-6, 360e-6),
        eager_seconds=rng.uniform(0.008, 0.018),
        sequence_seconds=rng.uniform(12e-6, 48e-6),
        batch_knee=256.0,
        crowd_seconds=0.0,
        kv_blocks=int(_log_uniform(rng, 140, 190)),
        jitter=0.04,
        drift=0.02,
        weather=0.02,
    )
    starts = StartPhysics(
        step_reduce_seconds=rng.uniform(0.015, 0.025),
        token_reduce_seconds=rng.uniform(48e-6, 90e-6),
        stage_seconds=_log_uniform(rng, 0.0006, 0.004),
        best_block=_log_uniform(rng, 36.0, 90.0),
        block_seconds=rng.uniform(1.5e-6, 2.6e-6),
        memory_share=0.91,
        load_seconds=rng.uniform(420.0, 660.0),
        start_sd=0.012,
    )
    return physics, starts


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(math.exp(rng.uniform(math.log(low), math.log(high))))
