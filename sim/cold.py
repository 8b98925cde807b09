"""What a simulated engine's start-up settings do: which take hold, which are refused, which break the start."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from change.engine import Values
from change.server import Setting, Settings
from sim.physics import Physics

CARDS = 4
SWAP_SPACE_GONE = (
    "--swap-space is gone since 0.18.0 and the engine exits with code 2: on Ascend its successor is "
    "--kv-transfer-config with OffloadingConnector and NPUOffloadingSpec, a prefix cache in host memory that frees no "
    "HBM, and so it is not set in its place"
)


@dataclass(frozen=True, slots=True)
class StartPhysics:
    """Hidden parameters of one engine that only a restart brings out: seconds, tokens and shares."""

    step_reduce_seconds: float
    """What the all-reduces of a step cost at four-way tensor parallelism, whatever is in it."""
    token_reduce_seconds: float
    """The same for each token of a step."""
    stage_seconds: float
    """What each pipeline stage beyond the first adds to a step: hand-over and bubbles."""
    best_block: float
    """Block size, in tokens, at which a step's look-ups and the L2 conflicts of its KV cost least together."""
    block_seconds: float
    """What reading one token of context costs at that size, beside the memory's own time."""
    memory_share: float
    """Largest share of device memory with which the engine still loads."""
    load_seconds: float
    """From the start to the first answer."""
    start_sd: float
    """Standard deviation of the logarithm of a start's own speed: no two starts of one engine are alike."""

    def applied(
        self, physics: Physics, settings: Settings, rng: np.random.Generator | None = None
    ) -> Physics:
        """The engine as it comes up with these effective settings; `rng` draws the start's own speed."""
        stages = _number(settings, "pipeline_parallel_size", 1)
        reduce = (_number(settings, "tensor_parallel_size", CARDS) - 1) / (CARDS - 1)
        block = _number(settings, "block_size", physics.block_tokens)
        apart = (block / self.best_block + self.best_block / block) / 2.0
        started = replace(
            physics,
            overhead_seconds=physics.overhead_seconds
            + self.step_reduce_seconds * reduce
            + self.stage_seconds * (stages - 1),
            token_seconds=physics.token_seconds + self.token_reduce_seconds * reduce,
            kv_read_seconds=physics.kv_read_seconds + self.block_seconds * apart,
            block_tokens=int(block),
            kv_blocks=int(physics.kv_blocks * physics.block_tokens // block),
        )
        return started if rng is None else slower(started, math.exp(rng.normal(0.0, self.start_sd)))


def slower(physics: Physics, factor: float) -> Physics:
    """The same engine with every step `factor` times as long."""
    return replace(
        physics,
        overhead_seconds=physics.overhead_seconds * factor,
        weight_read_seconds=physics.weight_read_seconds * factor,
        token_seconds=physics.token_seconds * factor,
        kv_read_seconds=physics.kv_read_seconds * factor,
        attention_seconds=physics.attention_seconds * factor,
        thrash_seconds=physics.thrash_seconds * factor,
        spill_seconds=physics.spill_seconds * factor,
        eager_seconds=physics.eager_seconds * factor,
        sequence_seconds=physics.sequence_seconds * factor,
        crowd_seconds=physics.crowd_seconds * factor,
    )


def _as_asked(settings: Settings) -> dict[str, Setting]:
    return dict(settings)


@dataclass(frozen=True, slots=True)
class ColdSide:
    """The start-up settings of a scenario's engine: those it was launched with, and what it makes of others."""

    launch: Settings
    effective: Callable[[Settings], Settings] = _as_asked
    """What the engine says it has when these are asked for."""
    gone: Mapping[str, str] = field(default_factory=dict)
    """Flags that this version does not take any more, each with why and what came after it."""
    allow: tuple[str, ...] = ()
    """What the operator of the scenario allows by name."""

    def problems(self, settings: Settings) -> list[str]:
        """Why a start with these can be refused beforehand."""
        found = [text for name, text in self.gone.items() if name in settings]
        unknown = [name for name in settings if name not in self.launch and name not in self.gone]
        found += [f"this engine has no start-up setting {name}" for name in unknown]
        shape = {**self.launch, **settings}
        cards = _number(shape, "tensor_parallel_size", 1) * _number(shape, "pipeline_parallel_size", 1)
        if cards > CARDS:
            found.append(f"tensor times pipeline parallelism needs {cards:.0f} cards: there are {CARDS}")
        return found

    def ceilings(self, effective: Settings, ceilings: Values) -> Values:
        """The ceilings of the hot values after a start."""
        budget = _number(effective, "batch_max_tokens", ceilings["batch_max_tokens"])
        return {
            **ceilings,
            "batch_max_tokens": budget,
            "max_prefill_tokens": budget,
            "long_prefill_tokens": budget,
            "max_num_seqs": _number(effective, "max_num_seqs", ceilings["max_num_seqs"]),
        }


def forced_to_128(settings: Settings) -> Settings:
    """Ascend under prefix caching or chunked prefill, both on by default: blocks hold 128 tokens."""
    return {**settings, "block_size": 128}


def _number(settings: Mapping[str, Setting], name: str, default: float) -> float:
    value = settings.get(name, default)
    if isinstance(value, str):
        raise ValueError(f"{name} is {value!r}: the simulated engine expects a number")
    return float(value)
