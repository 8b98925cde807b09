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
SPILL_SHARPNESS = 8.0
"""Exponent of the smooth maximum by which the cost per token rises at the knee."""

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
    """Prefill tokens in one step around which the L2 cache begins to thrash."""
    thrash_seconds: float
    """What a step pays once it thrashes fully: weights and KV tiles that were pushed out are read again."""
    thrash_sharpness: float
    """How fast the penalty sets in around the knee: the exponent of a Hill curve."""
    spill_seconds: float
    """What each prefill token beyond the knee costs more: its activations no longer stay in the cache between the
    kernels of a layer. Unlike the penalty it takes no throughput from a step that is only a little too long."""
    eager_seconds: float
    """What a step with prefill pays beyond one with decodes alone, for which graphs are captured."""
    sequence_seconds: float
    """Per-sequence cost within the batch knee."""
    batch_knee: float
    """Running sequences beyond which each further one costs `crowd_seconds` more."""
    crowd_seconds: float
    """Extra cost per sequence beyond the batch knee."""
    kv_blocks: int
    """KV blocks that fit beside the weights."""
    jitter: float
    """Standard deviation of the logarithm of a step's multiplicative noise."""
    drift: float
    """The same for the part of the noise that neighbouring steps share (16 steps, below a second)."""
    weather: float
    """The same for the part that lasts (512 steps, tens of seconds): clocks, neighbours, the host."""
    block_tokens: int = KV_BLOCK_TOKENS
    """Tokens in one KV block."""


@dataclass(frozen=True, slots=True)
class StepTables:
    """Step costs by count, unfolded once so that a step is a few look-ups. Seconds."""

    tokens: list[float]
    """By all tokens of the step: overhead and the roofline."""
    thrash: list[float]
    """By prefill tokens of the step: what they cost beside compute and attention, nothing for none."""
    sequences: list[float]
    """By sequences of the step."""


@lru_cache(maxsize=64)
def tables(physics: Physics) -> StepTables:
    """Unfold the parameters into step tables."""
    tokens = np.arange(_TOKENS, dtype=float)
    p = physics.roofline_sharpness
    compute = tokens * physics.token_seconds
    roofline = (physics.weight_read_seconds**p + compute**p) ** (1.0 / p)
    # No cliff: half the penalty at the knee.
    hill = tokens**physics.thrash_sharpness
    thrash = physics.thrash_seconds * hill / (hill + physics.thrash_knee_tokens**physics.thrash_sharpness)
    # No corner either: a smooth maximum of the tokens and the knee.
    beyond = (tokens**SPILL_SHARPNESS + physics.thrash_knee_tokens**SPILL_SHARPNESS) ** (
        1.0 / SPILL_SHARPNESS
    )
    thrash += physics.spill_seconds * (beyond - physics.thrash_knee_tokens)
    thrash[1:] += physics.eager_seconds
    sequences = np.arange(MAX_SEQUENCES + 1, dtype=float)
    crowd = np.maximum(sequences - physics.batch_knee, 0.0)
    return StepTables(
        tokens=(physics.overhead_seconds + roofline).tolist(),
        thrash=thrash.tolist(),
        sequences=(physics.sequence_seconds * sequences + physics.crowd_seconds * crowd).tolist(),
    )


class Jitter:
    """The stream of step-time factors: lognormal, a part of it shared by steps; all ones if off."""

    CHUNK = 4096
    _NEIGHBOURS = 16
    _LASTING = 512

    def __init__(self, physics: Physics, rng: np.random.Generator | None) -> None:
        self._physics = physics
        self._rng = rng
        self._scale = 1.0
        self._noise = np.zeros(self.CHUNK)

    def scaled(self, scale: float) -> list[float]:
        """The chunk handed out last with `scale` times its noise, which later chunks have too."""
        self._scale = scale
        return self._factors()

    def chunk(self) -> list[float]:
        """The next `CHUNK` factors."""
        if self._rng is None:
            return self._factors()
        p, rng = self._physics, self._rng
        noise = rng.normal(0.0, p.jitter, self.CHUNK)
        noise += np.repeat(rng.normal(0.0, p.drift, self.CHUNK // self._NEIGHBOURS), self._NEIGHBOURS)
        noise += np.repeat(rng.normal(0.0, p.weather, self.CHUNK // self._LASTING), self._LASTING)
        self._noise = noise
        return self._factors()

    def _factors(self) -> list[float]:
        factors: list[float] = np.exp(self._scale * self._noise).tolist()
        return factors
