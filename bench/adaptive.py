"""The adaptive mode beside the guide's formula and the best static config, on one simulated engine and equal arrivals.

The guide's formula for dynamic batching is taken as it is written: batch = min(32 x 1024^2 / (length x 7680), 8), with
the average length as 0.9 of the old one and 0.1 of that of the last 100 requests.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Final, Literal

from bench.drift import Drift, DriftingTraffic
from bench.ways import OWN_BYTES, Adaptive, Formula, OwnMemory, Way
from change.engine import RequestRecord, Values
from sim.engine import Engine
from sim.physics import Jitter, Physics
from sim.scenario import LAUNCH, capacity, draw_physics, serve, stream
from sim.traffic import Arrivals, Mix, Traffic

Load = Literal["steady", "drift"]
LOADS: Final[tuple[Load, ...]] = ("steady", "drift")
LATE_SECONDS = 1.0
"""A first token later than this is late."""
TICK_SECONDS = 5.0
WARM_UP_SECONDS = 300.0
HOUR = 3600.0

GUIDE_MIX = Mix()
"""50% of 128 prompt tokens, 30% of 512, 20% of 1024; answers of 16 to 256."""
LONG_MIX = Mix(prompts=((512, 0.3), (1024, 0.4), (2048, 0.3)), output_low=128, output_high=1024)
SHARE = 0.7
"""What comes, as a share of what the engine can do under a reasonable prefill cap."""
REASONABLE: Values = {**LAUNCH, "batch_max_tokens": 1024, "max_prefill_tokens": 256}

GUIDE_STATIC = 4
"""The batch that the guide compares its formula with."""
SEQS_TRIED = (16, 24, 32, 48, 64, 96, 128, 192, 256)
PREFILL_TRIED = (0, 128, 192, 256, 384, 512)


@dataclass(frozen=True, slots=True)
class Result:
    """One way over one run, measured after the warm-up."""

    load: str
    seed: int
    way: str
    values: Values
    """What served at the end."""
    tokens_per_second: float
    goodput: float
    """Output tokens per second of requests whose first token came in time."""
    late_share: float
    """Share of the requests that came and whose first token did not within a second."""
    preemptions: int
    changes: int
    zeros: int
    """Times a formula gave 0."""


@dataclass(frozen=True, slots=True)
class Case:
    """One engine and its load."""

    load: Load
    seed: int
    share: float = SHARE
    seconds: float = HOUR

    @property
    def physics(self) -> Physics:
        """The field's engine of this seed."""
        return draw_physics(stream(self.seed, "hidden"))

    def traffic(self) -> Traffic:
        """Its arrivals: the same for whatever serves them."""
        rng = stream(self.seed, "adaptive")
        short = self.share * _capacity(self.physics, GUIDE_MIX)
        if self.load == "steady":
            return Traffic(Arrivals(short), rng, 0.0)
        long = self.share * _capacity(self.physics, LONG_MIX)
        return DriftingTraffic(Drift(GUIDE_MIX, LONG_MIX, short, long, HOUR), rng)

    def run(self, name: str, way: Way) -> Result:
        """Serve it in one way."""
        physics = self.physics
        engine = Engine(physics, self.traffic(), Jitter(physics, stream(self.seed, "jitter")), start=0.0)
        serve(engine, way.values)
        end = WARM_UP_SECONDS + self.seconds
        now, preempted, tokens = 0.0, 0, 0
        rows: list[RequestRecord] = []
        while now < end:
            now += TICK_SECONDS
            engine.run(now)
            records = [RequestRecord(*row) for row in engine.finished]
            engine.finished.clear()
            if now <= WARM_UP_SECONDS:
                preempted = engine.preemptions
            else:
                tokens += sum(record.output_tokens for record in records)
            rows += [record for record in records if record.arrival >= WARM_UP_SECONDS]
            before = dict(way.values)
            way.tick(now, engine, records)
            if way.values != before:
                serve(engine, way.values)
        # Who came too late to have an answer by now is not counted against anybody.
        inside = [*engine.running.values(), *engine.waiting]
        came = [one for one in inside if WARM_UP_SECONDS <= one.arrival <= end - LATE_SECONDS]
        late = sum((one.first_token or now) - one.arrival > LATE_SECONDS for one in came)
        in_time = [r for r in rows if r.first_token is not None and r.first_token - r.arrival <= LATE_SECONDS]
        taken = len(rows) + len(came)
        return Result(
            self.load,
            self.seed,
            name,
            dict(way.values),
            tokens / self.seconds,
            sum(r.output_tokens for r in in_time) / self.seconds,
            (late + len(rows) - len(in_time)) / taken if taken else 0.0,
            engine.preemptions - preempted,
            way.changes,
            way.zeros,
        )


def _capacity(physics: Physics, mix: Mix) -> float:
    return capacity(physics, mix, REASONABLE, 600.0)


def best_static(case: Case) -> Values:
    """The static config with the most goodput on this very load: the prefill cap first, then the sequences, and again.

    It is chosen in hindsight, on the arrivals that it is then judged on, which no config in a real engine is.
    """
    best = dict(REASONABLE)

    def score(values: Values) -> tuple[float, float]:
        result = case.run("static", Way(values))
        return result.goodput, result.tokens_per_second

    for name, tried in (
        ("max_prefill_tokens", PREFILL_TRIED),
        ("max_num_seqs", SEQS_TRIED),
        ("max_prefill_tokens", PREFILL_TRIED),
    ):
        best = max(({**best, name: value} for value in tried), key=score)
    return best


def compare(seed: int, load: Load, share: float = SHARE, seconds: float = HOUR) -> list[Result]:
    """Every way on one seed of one load, over the same arrivals.

    `promoted on the mix` is the best static config of the steady mix: what is proved in one hour serves in others.
    """
    case = Case(load, seed, share, seconds)
    static = best_static(case)
    promoted = static if load == "steady" else best_static(Case("steady", seed, share, seconds))
    ways: dict[str, Callable[[], Way]] = {
        "launch values": lambda: Way(LAUNCH),
        f"guide's static {GUIDE_STATIC}": lambda: Way({**static, "max_num_seqs": GUIDE_STATIC}),
        "guide's formula": lambda: Formula(static),
        "formula, own bytes": lambda: Formula(static, OWN_BYTES),
        "formula, own memory": lambda: OwnMemory(static),
        "best static": lambda: Way(static),
        "adaptive on it": lambda: Adaptive(static),
        "promoted on the mix": lambda: Way(promoted),
        "adaptive on that": lambda: Adaptive(promoted),
        "adaptive on launch": lambda: Adaptive(LAUNCH),
    }
    return [case.run(name, make()) for name, make in ways.items()]


def results(
    seeds: Sequence[int], loads: Sequence[Load] = LOADS, share: float = SHARE, processes: int = 2
) -> list[Result]:
    """Every way on every seed and load."""
    found: list[Result] = []
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for load in loads:
            for of_seed in pool.map(partial(compare, load=load, share=share), seeds, chunksize=1):
                found += of_seed
    return found


def table(found: Sequence[Result]) -> str:
    """Means over the seeds, and each way's goodput over that of the best static config of the same seed."""
    lines = []
    for load in dict.fromkeys(one.load for one in found):
        mine = [one for one in found if one.load == load]
        best = {one.seed: one.goodput for one in mine if one.way == "best static"}
        lines.append(
            f"{load} ({len(best)} seeds)        tokens/s  goodput  of best static (least, most)   late  preempted  "
            "changes  zeros"
        )
        for way in dict.fromkeys(one.way for one in mine):
            rows = [one for one in mine if one.way == way]
            ratios = [one.goodput / best[one.seed] for one in rows if best[one.seed] > 0] or [float("nan")]
            lines.append(
                f"{way:22s} {fmean(r.tokens_per_second for r in rows):8.1f} {fmean(r.goodput for r in rows):8.1f}"
                f"   {fmean(ratios):6.3f} ({min(ratios):.3f}, {max(ratios):.3f})"
                f"     {fmean(r.late_share for r in rows):10.1%} {fmean(r.preemptions for r in rows):9.0f}"
                f" {fmean(r.changes for r in rows):8.1f} {fmean(r.zeros for r in rows):6.1f}"
            )
    return "\n".join(lines)
