"""The 32B story seed by seed: how far the host lane alone brings the time to the first token down, and by what."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import mean

from daemon.demo import headless_report
from sim.host_story import Topology
from sim.scenario import SCENARIOS
from sim.truth import simulate
from tuner.window import quantile

STORIES = ("ttft-32b", "ttft-32b-two-nodes")
FALL = 0.09
"""Share of the time to the first token that the host lane is to take away."""
LADDER_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """One campaign: `fall` and `best_fall` are shares of the noise-free median time to the first token."""

    scenario: str
    seed: int
    decision: str
    fall: float
    best_fall: float
    moved: Mapping[str, str]
    low: float
    """Low end of the effect that the campaign itself reported, ratio - 1."""
    paired_sd: float
    failed: int
    restarts: int
    trials: int
    cpu_seconds: float

    @property
    def whole(self) -> bool:
        """Whether binding whole processes was promoted."""
        return self.moved.get("placement", "").startswith("whole")


def outcome(job: tuple[str, int], minutes: float | None = None) -> Outcome:
    """Run one scenario and seed."""
    scenario, seed = job
    begun = time.process_time()
    report = headless_report(scenario, seed, minutes)
    truth = report["truth"] or {"incumbent": 1.0, "winner": 1.0, "best": 1.0}
    serving, incumbent = report["serving"], report["incumbent"]
    return Outcome(
        scenario,
        seed,
        report["decision"],
        1.0 - truth["winner"] / truth["incumbent"],
        1.0 - truth["best"] / truth["incumbent"],
        {name: str(value) for name, value in serving.items() if incumbent.get(name) != value},
        (report["effect"] or {}).get("low", float("nan")),
        report.get("calibration", {}).get("paired_sd", float("nan")),
        report["failed_requests"],
        report["restarts"],
        report["trials"],
        time.process_time() - begun,
    )


def outcomes(
    seeds: Sequence[int],
    scenarios: Sequence[str] = STORIES,
    minutes: float | None = None,
    processes: int = 2,
) -> list[Outcome]:
    """Run every seed of every scenario, each in a process of its own."""
    jobs = [(scenario, seed) for scenario in scenarios for seed in seeds]
    with multiprocessing.get_context("spawn").Pool(processes, maxtasksperchild=8) as pool:
        return pool.map(partial(outcome, minutes=minutes), jobs, chunksize=1)


def table(found: Sequence[Outcome]) -> str:
    """One line a campaign."""
    lines = ["scenario            seed decision      TTFT    best    low     sd    trials  cpu  what serves"]
    for o in found:
        moved = ", ".join(f"{name}={text}" for name, text in o.moved.items()) or "as found"
        lines.append(
            f"{o.scenario:19s} {o.seed:4d} {o.decision:12s} {-o.fall:+6.1%} {-o.best_fall:+6.1%} {o.low:+6.1%}"
            f"  {o.paired_sd:.3f} {o.trials:6d} {o.cpu_seconds:5.0f}  {moved}"
        )
    return "\n".join(lines)


def reached(found: Sequence[Outcome]) -> bool:
    """Whether TTFT falls far enough, in the mean and in nine of ten campaigns, at no cost, and by no false friend."""
    return (
        mean(o.fall for o in found) >= FALL
        and sum(o.fall >= FALL for o in found) >= 0.9 * len(found)
        and all(o.decision == "promoted" for o in found)
        and not any(o.whole or o.failed or o.restarts for o in found)
    )


def summary(found: Sequence[Outcome]) -> str:
    """The figures of a run."""
    falls = sorted(o.fall for o in found)
    return (
        f"TTFT falls by {FALL:.0%} or more in {sum(fall >= FALL for fall in falls)} of {len(found)} campaigns"
        f" (from {falls[0]:.1%} to {falls[-1]:.1%}, {mean(falls):.1%} in the mean; the best there is"
        f" {mean(o.best_fall for o in found):.1%}); whole-process binding promoted"
        f" {sum(o.whole for o in found)} times; failed requests {sum(o.failed for o in found)}, restarts"
        f" {sum(o.restarts for o in found)}; CPU {max(o.cpu_seconds for o in found):.0f} s a campaign at most"
    )


def steps(topology: Topology) -> dict[str, dict[str, str]]:
    """The guide's steps on a topology, each with the host's knobs that it sets."""
    room = topology.roomiest
    numa = {"placement": f"split:{room}", "memory": f"node:{room}"}
    return {
        "as found": {},
        "whole processes": {"placement": f"whole:{topology.nodes[0]}"},
        "basic binding": {"placement": f"split:{topology.nodes[0]}"},
        "NUMA": numa,
        "final": {
            **numa,
            "shared_memory": f"node:{room}",
            "transparent_hugepages": "never",
            "khugepaged_defrag": "0",
            "cpu_governor": "performance",
            "irq_placement": "off_compute",
        },
    }


def ladder(scenario: str, seeds: Sequence[int]) -> dict[str, tuple[float, float, float]]:
    """Of each of the guide's steps the mean over seeds: TTFT mean and 99th percentile in ms, NPU share of busy time."""
    found: dict[str, list[tuple[float, float, float]]] = {}
    for seed in seeds:
        story = SCENARIOS[scenario].drawn(seed).host
        assert story is not None, f"scenario {scenario} has no host"
        for step, wanted in steps(story.topology).items():
            texts = {name: wanted.get(name, known[0]) for name, known in story.options.items()}
            values = {name: float(known.index(texts[name])) for name, known in story.options.items()}
            page = simulate(scenario, seed, values, LADDER_SECONDS, noise=True)
            ttft = sorted(r.first_token - r.arrival for r in page.records if r.first_token is not None)
            found.setdefault(step, []).append(
                (1e3 * mean(ttft), 1e3 * quantile(ttft, 0.99), story.computing(texts))
            )
    return {
        step: (mean(r[0] for r in rows), mean(r[1] for r in rows), mean(r[2] for r in rows))
        for step, rows in found.items()
    }


def ladder_table(found: Mapping[str, tuple[float, float, float]]) -> str:
    """One line a step."""
    return "\n".join(
        f"{step:16s} TTFT {figures[0]:4.0f} ms in the mean, {figures[1]:4.0f} at the 99th percentile,"
        f" NPUs compute {figures[2]:.0%}"
        for step, figures in found.items()
    )
