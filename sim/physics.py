"""What a step costs: the hidden parameters of one simulated engine and the tables they unfold into.

The figures stand for a 235B mixture of experts in int4 on four 32 GB cards: weights leave little room for KV blocks,
a step's floor is the reading of the weights, and prefill beyond a knee makes the L2 cache thrash. Nothing here is
visible to a tuner, which sees only request times.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

KV_BLOCK_TOKENS = 128
MAX_STEP_TOKENS = 8192
MAX_SEQUENCES = 256
MAX_MODEL_LEN = 4096

_TOKENS = MAX_STEP_TOKENS + MAX_SEQUENCES + 1


@dataclass(frozen=True, slots=True)
class Physics:
    """Hidden parameters of one engine: seconds, tokens, sequences, blocks and shares."""

    overhead_seconds: float
    """Scheduling, launch and sampling: paid by every step."""
    weight_read_seconds: float
    """Reading the weights of a step whose batch is too small to be bound by compute."""
    token_seconds: float
    """Compute per token."""
    roofline_sharpness: float
    """Exponent of the smooth maximum of weight reading and compute: the higher, the sharper the corner."""
    kv_read_seconds: float
    """Reading one token of context of a running sequence."""
    attention_seconds: float
    """Prefill attention per pair of a new token and a token before it."""
    thrash_knee_tokens: float
    """Prefill tokens in one step above which the L2 cache thrashes."""
    thrash_seconds: float
    """Penalty per prefill token beyond the knee."""
    sequence_seconds: float
    """Per-sequence cost within the batch knee."""
    batch_knee: float
    """Running sequences beyond which each further one costs `crowd_seconds` more."""
    crowd_seconds: float
    """Extra cost per sequence beyond the batch knee."""
    kv_blocks: int
    """KV blocks of 128 tokens that fit beside the weights."""
    jitter: float
    """Standard deviation of the logarithm of a step's multiplicative noise."""
    drift: float
    """Standard deviation of the logarithm of the part of the noise that neighbouring steps share."""


@dataclass(frozen=True, slots=True)
class StepTables:
    """Step costs by count, unfolded once so that a step is a few look-ups. Seconds."""

    tokens: list[float]
    """By all tokens of the step: overhead and the roofline."""
    thrash: list[float]
    """By prefill tokens of the step."""
    sequences: list[float]
    """By sequences of the step."""


@lru_cache(maxsize=64)
def tables(physics: Physics) -> StepTables:
    """Unfold the parameters into step tables."""
    tokens = np.arange(_TOKENS, dtype=float)
    p = physics.roofline_sharpness
    compute = tokens * physics.token_seconds
    roofline = (physics.weight_read_seconds**p + compute**p) ** (1.0 / p)
    # The penalty sets in softly over a quarter of the knee: caches do not have corners.
    width = physics.thrash_knee_tokens / 4
    beyond = width * np.logaddexp(0.0, (tokens - physics.thrash_knee_tokens) / width)
    beyond -= width * np.logaddexp(0.0, -physics.thrash_knee_tokens / width)
    sequences = np.arange(MAX_SEQUENCES + 1, dtype=float)
    crowd = np.maximum(sequences - physics.batch_knee, 0.0)
    return StepTables(
        tokens=(physics.overhead_seconds + roofline).tolist(),
        thrash=(physics.thrash_seconds * beyond).tolist(),
        sequences=(physics.sequence_seconds * sequences + physics.crowd_seconds * crowd).tolist(),
    )


class Jitter:
    """The stream of step-time factors: lognormal, a part of it shared by neighbouring steps; all ones if switched off."""

    CHUNK = 4096
    _HELD = 16

    def __init__(self, physics: Physics, rng: np.random.Generator | None) -> None:
        self._physics = physics
        self._rng = rng

    def chunk(self) -> list[float]:
        """The next `CHUNK` factors."""
        if self._rng is None:
            return [1.0] * self.CHUNK
        own = self._rng.normal(0.0, self._physics.jitter, self.CHUNK)
        shared = self._rng.normal(0.0, self._physics.drift, self.CHUNK // self._HELD)
        factors: list[float] = np.exp(own + np.repeat(shared, self._HELD)).tolist()
        return factors
