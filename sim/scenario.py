"""Scenarios: what a simulated node serves, with which hidden parameters, and what is asked of a tuner there."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial

import numpy as np

from change.engine import Values
from change.server import Settings
from sim import cold_story
from sim.cold import ColdSide, StartPhysics, slower
from sim.engine import Engine
from sim.host_story import NEAREST_FULL, TWO_NODES, HostStory, Topology, draw_32b, draw_host
from sim.physics import MAX_SEQUENCES, MAX_STEP_TOKENS, Jitter, Physics
from sim.traffic import Arrivals, Mix, Traffic

HOST_STORY_KNOBS = (
    "placement",
    "memory",
    "shared_memory",
    "transparent_hugepages",
    "khugepaged_defrag",
    "cpu_governor",
    "irq_placement",
)
HOT_KNOBS = ("batch_max_tokens", "max_prefill_tokens", "long_prefill_tokens", "max_num_seqs", "watermark")

LAUNCH: Values = {
    "batch_max_tokens": 2048,
    "max_prefill_tokens": 0,
    "long_prefill_tokens": 0,
    "max_num_seqs": 256,
    "watermark": 0.0,
}
CEILINGS: Values = {
    "batch_max_tokens": MAX_STEP_TOKENS,
    "max_prefill_tokens": MAX_STEP_TOKENS,
    "long_prefill_tokens": MAX_STEP_TOKENS,
    "max_num_seqs": MAX_SEQUENCES,
    "watermark": 0.5,
}
FLOORS: Values = {
    # The tail decodes of a full batch must fit into one step.
    "batch_max_tokens": MAX_SEQUENCES,
    # 0 (off) stands outside the bounds of the two prefill caps.
    "max_prefill_tokens": 16,
    "long_prefill_tokens": 16,
    "max_num_seqs": 1,
    "watermark": 0.0,
}


@dataclass(frozen=True, slots=True)
class Draw:
    """One seed's engine and traffic."""

    physics: Physics
    arrivals: Arrivals
    starts: StartPhysics | None = None
    """What only a restart brings out; None where no start-up setting does anything."""
    host: HostStory | None = None
    """What the host's knobs are worth, where they are the story."""

    def started(self, settings: Settings, rng: np.random.Generator | None = None) -> Physics:
        """The engine as it comes up with these effective start-up settings."""
        return self.physics if self.starts is None else self.starts.applied(self.physics, settings, rng)


@dataclass(frozen=True, slots=True)
class Scenario:
    """One story: everything a node is made from, except the seed."""

    name: str
    help: str
    draw: Callable[[np.random.Generator], Draw]
    knobs: tuple[str, ...] = HOT_KNOBS
    slo: Mapping[str, float] = field(default_factory=dict)
    """SLO key (`ttft_p90_seconds`, ...) to limit; empty is no SLO."""
    objective: str = "goodput"
    quantile: float = 0.9
    min_effect: float = 0.1
    """Smallest effect worth a change: these engines have far larger ones."""
    minutes: float = 240.0
    """Budget of a campaign, simulated."""
    launch: Values = field(default_factory=lambda: dict(LAUNCH))
    ceilings: Values = field(default_factory=lambda: dict(CEILINGS))
    floors: Values = field(default_factory=lambda: dict(FLOORS))
    inert: bool = False
    """The engine says it applied a config and goes on as launched: every candidate is truly equal."""
    clamp: Callable[[Values], Values] | None = None
    """What the engine makes of requested values, if not the same."""
    cold: ColdSide | None = None
    """The engine's start-up settings, if it may be restarted with others."""
    restarts: int = 0
    """Restarts that a campaign may spend by default."""

    def drawn(self, seed: int) -> Draw:
        """The hidden parameters of one seed."""
        return _drawn(self.draw, seed)

    def effective(self, values: Values) -> Values:
        """What the engine says it serves when `values` are requested."""
        return dict(values) if self.clamp is None else dict(self.clamp(values))

    def served(self, effective: Values) -> Values:
        """What the engine's scheduler truly works with."""
        return dict(self.launch) if self.inert else dict(effective)


def serve(engine: Engine, served: Values) -> None:
    """Set an engine's scheduler to these values."""
    engine.serve(
        batch_max_tokens=int(served["batch_max_tokens"]),
        max_prefill_tokens=int(served["max_prefill_tokens"]),
        long_prefill_tokens=int(served["long_prefill_tokens"]),
        max_num_seqs=int(served["max_num_seqs"]),
        watermark=float(served["watermark"]),
    )


def stream(seed: int, name: str) -> np.random.Generator:
    """A random stream of its own for each purpose, so that one never disturbs another."""
    return np.random.default_rng(np.random.SeedSequence([seed, zlib.crc32(name.encode())]))


@lru_cache(maxsize=256)
def _drawn(draw: Callable[[np.random.Generator], Draw], seed: int) -> Draw:
    return draw(stream(seed, "hidden"))


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(math.exp(rng.uniform(math.log(low), math.log(high))))


def draw_physics(rng: np.random.Generator) -> Physics:
    """The field's engine before it is scaled to its load: beyond a knee in prefill tokens cost several times more.

    The knee lies low, so that few budgets reach below it, as their floor holds a decode for every sequence; and there
    is no cliff, so that a bad config is measured rather than aborted.
    """
    return Physics(
        overhead_seconds=rng.uniform(0.004, 0.007),
        weight_read_seconds=rng.uniform(0.034, 0.040),
        token_seconds=rng.uniform(50e-6, 65e-6),
        roofline_sharpness=rng.uniform(2.5, 5.0),
        kv_read_seconds=rng.uniform(0.15e-6, 0.35e-6),
        attention_seconds=rng.uniform(4e-9, 8e-9),
        thrash_knee_tokens=_log_uniform(rng, 170, 270),
        thrash_seconds=0.0,
        thrash_sharpness=8.0,
        spill_seconds=rng.uniform(190e-6, 220e-6),
        eager_seconds=0.0,
        sequence_seconds=rng.uniform(10e-6, 40e-6),
        batch_knee=_log_uniform(rng, 24, 56),
        crowd_seconds=_log_uniform(rng, 0.1e-3, 0.35e-3),
        kv_blocks=int(_log_uniform(rng, 450, 600)),
        jitter=0.04,
        drift=0.04,
        weather=0.05,
    )


def capacity(physics: Physics, mix: Mix, launch: Values, seconds: float = 60.0) -> float:
    """Requests per second that an engine finishes when a queue always stands, noise-free."""
    flood = Traffic(Arrivals(rate=60.0, mix=mix), np.random.default_rng(0), 0.0)
    engine = Engine(physics, flood, Jitter(physics, None), start=0.0, records=False)
    serve(engine, launch)
    engine.run(seconds / 2)
    before = engine.completed
    engine.run(1.5 * seconds)
    return (engine.completed - before) / seconds


def at_load(physics: Physics, arrivals: Arrivals, share: float) -> Physics:
    """The same engine, slower or faster as a whole, so that `arrivals` use `share` of what it can do as launched."""
    factor = capacity(physics, arrivals.mix, LAUNCH) * share / arrivals.rate
    return slower(physics, factor)


def _default(rng: np.random.Generator) -> Draw:
    # A slow engine: its steps are long, and with them the windows, so that a campaign holds few of them.
    arrivals = Arrivals(rate=rng.uniform(2.4, 2.6))
    share = rng.uniform(0.60, 0.63)
    return Draw(at_load(draw_physics(rng), arrivals, share), arrivals)


def _default_is_best(rng: np.random.Generator) -> Draw:
    # Steps cost the same whatever they prefill up to the launch budget: a smaller cap only spends more steps, a larger
    # one thrashes. Memory and batch are ample, so no other knob helps either.
    physics = replace(
        draw_physics(rng),
        token_seconds=4e-6,
        eager_seconds=0.0,
        spill_seconds=0.0,
        attention_seconds=0.0,
        thrash_knee_tokens=2300.0,
        thrash_seconds=0.4,
        thrash_sharpness=24.0,
        batch_knee=256.0,
        crowd_seconds=0.0,
        kv_blocks=2048,
    )
    return Draw(physics, Arrivals(rate=rng.uniform(5.7, 6.3)))


def _diurnal(rng: np.random.Generator) -> Draw:
    # Below the default load: at the top of the swing a queue must not stand for an hour.
    base = _default(rng)
    return replace(base, arrivals=Arrivals(base.arrivals.rate * 0.8, amplitude=0.3, period_seconds=7200.0))


def _aa(rng: np.random.Generator) -> Draw:
    # Half loaded and without a knee, so that noise leaves room for whole campaigns and the tuner can be fooled at all.
    arrivals = Arrivals(rate=rng.uniform(5.7, 6.3), amplitude=0.3, period_seconds=7200.0)
    flat = replace(draw_physics(rng), thrash_seconds=0.0, spill_seconds=0.0)
    return Draw(at_load(flat, arrivals, 0.5), arrivals)


def _thin(rng: np.random.Generator) -> Draw:
    return replace(_default(rng), arrivals=Arrivals(rate=0.02))


def _bursty(rng: np.random.Generator) -> Draw:
    base = _default(rng)
    return replace(base, arrivals=replace(base.arrivals, rate=base.arrivals.rate * 0.85, burstiness=2.0))


def _shift(rng: np.random.Generator) -> Draw:
    base = _default(rng)
    later = Mix(prompts=((128, 0.15), (512, 0.25), (1024, 0.6)))
    rate = base.arrivals.rate
    after = rate * base.arrivals.mix.mean_prompt / later.mean_prompt
    return replace(
        base, arrivals=replace(base.arrivals, shift_seconds=7200.0, rate_after=after, mix_after=later)
    )


def _guide(rng: np.random.Generator) -> Draw:
    physics, starts = cold_story.drawn(rng)
    return Draw(physics, cold_story.users(), starts)


def _guide_plain(_: np.random.Generator) -> Draw:
    physics, starts = cold_story.plain()
    return Draw(physics, cold_story.users(), starts)


def _ttft_32b(rng: np.random.Generator, topology: Topology) -> Draw:
    # Prompts of one length at a steady pace, as the guide measured it: two of them never meet.
    mix = Mix(prompts=((1024, 1.0),), output_low=16, output_high=64)
    arrivals = Arrivals(rate=rng.uniform(1.9, 2.1), burstiness=0.12, mix=mix)
    return Draw(draw_32b(rng), arrivals, host=draw_host(rng, topology))


def _clamped(values: Values) -> Values:
    cap = values["max_prefill_tokens"]
    return {**values, "max_prefill_tokens": cap if cap == 0 else max(cap, 1024)}


SCENARIOS: Mapping[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        Scenario(
            "default",
            "the field's engine at Ascend's defaults, Poisson traffic, about 2.5 requests/s",
            _default,
            min_effect=0.12,
            minutes=200.0,
        ),
        Scenario(
            "default-is-best",
            "prefill is nearly free and memory ample: the launch values are truly the best",
            _default_is_best,
        ),
        Scenario(
            "aa", "knobs without any effect while the load swings by 30%", _aa, inert=True, minutes=120.0
        ),
        Scenario("thin", "one request every 50 s: too little to learn from", _thin),
        Scenario("bursty", "requests come in bursts", _bursty),
        Scenario("diurnal", "the load swings by 30% within two hours", _diurnal),
        Scenario(
            "clamped",
            "the engine raises small prefill caps to 1024 and forces block_size to 128, and says so",
            _default,
            clamp=_clamped,
            cold=cold_story.FORCED,
            restarts=4,
        ),
        Scenario("shift", "after two hours prompts become long and rarer", _shift),
        Scenario(
            "guide-235b",
            "the 235B guide's engine on four cards: block size, pipeline stages and hot values, with 4 restarts",
            _guide,
            objective="throughput",
            min_effect=0.05,
            minutes=240.0,
            ceilings=cold_story.CEILINGS,
            cold=cold_story.HONOURED,
            restarts=4,
        ),
        Scenario(
            "guide-235b-plain",
            "the same without any draw: the guide's own values are the best and gain its own +78%",
            _guide_plain,
            objective="throughput",
            min_effect=0.05,
            minutes=240.0,
            ceilings=cold_story.CEILINGS,
            cold=cold_story.HONOURED,
            restarts=4,
        ),
        *(
            Scenario(
                name,
                f"a 32B model waits for its host: {what}",
                partial(_ttft_32b, topology=topology),
                knobs=HOST_STORY_KNOBS,
                objective="ttft",
                quantile=0.5,
                min_effect=0.015,
                minutes=150.0,
                launch={**LAUNCH, "batch_max_tokens": MAX_STEP_TOKENS},
            )
            for name, what, topology in (
                ("ttft-32b", "the node of its cards is full", NEAREST_FULL),
                ("ttft-32b-two-nodes", "its cards are at two nodes, one of them full", TWO_NODES),
            )
        ),
    )
}
