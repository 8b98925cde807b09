"""Priority by size: the share of requests over a second to the first token, as they come, long first, short first.

The guide claims that long-first took that share from 18% to 5%. In its own mix no prompt is over 2048 tokens, so a mix
with some that are stands beside it.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean

from sim.engine import Engine
from sim.physics import Jitter
from sim.queue import ORDERS, Order, size_class
from sim.scenario import LAUNCH, capacity, draw_physics, serve, stream
from sim.traffic import Arrivals, Mix, Traffic

LATE_SECONDS = 1.0
WARM_UP_SECONDS = 300.0
SECONDS = 3600.0
VALUES = {**LAUNCH, "batch_max_tokens": 1024, "max_prefill_tokens": 256}
MIXES = {
    "guide's mix": Mix(),
    "with long ones": Mix(prompts=((128, 0.45), (512, 0.27), (1024, 0.18), (3000, 0.10))),
}
SHARES = (0.7, 0.8, 0.9, 1.0)
CLASSES = ("long", "medium", "short")


@dataclass(frozen=True, slots=True)
class Result:
    """One order over one run."""

    mix: str
    share: float
    """Load as a share of what the engine can do."""
    seed: int
    order: Order
    late_share: float
    """Share of all that came whose first token did not within a second."""
    late_by_class: dict[str, float]
    p99_seconds: float
    """Of the times to first token; who still waits counts with the time so far."""
    longest_seconds: float


def run(seed: int, mix: str, share: float, order: Order) -> Result:
    """Serve one load in one order."""
    physics = draw_physics(stream(seed, "hidden"))
    rate = share * capacity(physics, MIXES[mix], VALUES, 600.0)
    traffic = Traffic(Arrivals(rate, mix=MIXES[mix]), stream(seed, "priority"), 0.0)
    jitter = Jitter(physics, stream(seed, "jitter"))
    engine = Engine(physics, traffic, jitter, start=0.0, order=order)
    serve(engine, VALUES)
    end = WARM_UP_SECONDS + SECONDS
    engine.run(end)
    waits = [
        (row[7], row[2] - row[1])
        for row in engine.finished
        if row[1] >= WARM_UP_SECONDS and row[2] is not None
    ]
    # Who waits still has waited at least so long; who came in the last second is not counted against anybody.
    waits += [
        (one.prompt, (one.first_token or end) - one.arrival)
        for one in (*engine.running.values(), *engine.waiting)
        if WARM_UP_SECONDS <= one.arrival <= end - LATE_SECONDS
    ]
    by_class = {
        name: [wait for prompt, wait in waits if size_class(prompt) == place]
        for place, name in enumerate(CLASSES)
    }
    ordered = sorted(wait for _, wait in waits)
    return Result(
        mix,
        share,
        seed,
        order,
        _late(ordered),
        {name: _late(found) for name, found in by_class.items() if found},
        ordered[int(0.99 * (len(ordered) - 1))],
        ordered[-1],
    )


def _late(waits: Sequence[float]) -> float:
    return sum(wait > LATE_SECONDS for wait in waits) / len(waits)


def of_seed(seed: int, shares: Sequence[float] = SHARES) -> list[Result]:
    """Every mix, load and order on one seed."""
    return [run(seed, mix, share, order) for mix in MIXES for share in shares for order in ORDERS]


def results(seeds: Sequence[int], shares: Sequence[float] = SHARES, processes: int = 2) -> list[Result]:
    """Every seed, each in a process."""
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        return [
            one for found in pool.map(partial(of_seed, shares=shares), seeds, chunksize=1) for one in found
        ]


def table(found: Sequence[Result]) -> str:
    """Means over the seeds."""
    lines = ["mix             load  order        over 1 s     long   medium    short      p99   longest"]
    for mix, share, order in dict.fromkeys((one.mix, one.share, one.order) for one in found):
        rows = [one for one in found if (one.mix, one.share, one.order) == (mix, share, order)]
        classes = "".join(
            f" {fmean(r.late_by_class[name] for r in rows):8.1%}"
            if name in rows[0].late_by_class
            else "        -"
            for name in CLASSES
        )
        lines.append(
            f"{mix:15s} {share:4.0%}  {order:11s} {fmean(r.late_share for r in rows):9.1%}{classes}"
            f" {fmean(r.p99_seconds for r in rows):7.1f}s {fmean(r.longest_seconds for r in rows):8.0f}s"
        )
    return "\n".join(lines)
