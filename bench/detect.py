"""Whether the shipped rules and playbooks find, name and mend the faults of a simulated replica, seed by seed."""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from statistics import median
from typing import Any

from bench.detect_world import Walk, World, quietly
from rules import playbooks
from rules.playbook.load import load as load_playbooks
from rules.playbook.schema import Playbook
from rules.rule import RuleGroup
from rules.rule_file import load as load_rules
from rules.rule_file import shipped_files
from sim.faults import FAULTS, Fault, FaultName, TroubledNode, draw
from sim.virtual_time import live

START = 1_800_021_600.0
"""Two in the afternoon."""
RIGHT: Mapping[FaultName, frozenset[str]] = {
    "thermal": frozenset({"thermal_throttling"}),
    "slow_card": frozenset({"slow_card"}),
    "leak": frozenset({"hbm_leak", "host_memory"}),
    "fragmentation": frozenset({"memory_fragmentation"}),
    "oom_at_load": frozenset({"npu_out_of_memory", "kv_cache_memory"}),
    "stall": frozenset({"engine_stall"}),
    "dead_engine": frozenset({"engine_dead"}),
    "irq_storm": frozenset({"irq_storm"}),
    "governor": frozenset({"cpu_governor"}),
    "numa": frozenset({"cpu_binding"}),
    "queue_surge": frozenset({"queue_over_100"}),
}
"""The playbook of each fault. A general one that comes to the same cause is not the right one."""
PLAYBOOKS = Path(playbooks.__file__).parent
SLO: Mapping[str, float | None] = {"ttft_p99_seconds": 2.5, "itl_p99_seconds": 0.3, "error_ratio": 0.01}
"""What the replica's operator promises its users."""
WITHIN_SECONDS, SLOW_WITHIN_SECONDS = 2.0 * 3600.0, 40.0 * 3600.0
"""After its onset a fault is to be mended in this time: a slow one in the second night's window at the latest."""
COARSE_SECONDS, RARE_SECONDS = 20.0, 60.0
"""Between two looks, and between two evaluations of a rule, where hours are lived through."""
ENOUGH_SHARE, ENOUGH_EACH = 209 / 220, 17 / 20
LEAVE_SECONDS = 30.0
LOOK_SECONDS = 15


@dataclass(frozen=True, slots=True)
class Found:
    """What came of one fault; times are seconds after its onset, None if it never came to that."""

    fault: FaultName
    seed: int
    variant: str
    magnitude: Mapping[str, float]
    second_replica: bool
    detected: str | None
    """The first rule above info that fired."""
    detected_after: float | None
    playbook: bool
    cause: bool
    fixed: bool
    fixed_after: float | None
    false_alarms: tuple[str, ...]
    """Alerts above info before the onset."""
    walks: tuple[Walk, ...]
    cpu_seconds: float

    @property
    def good(self) -> bool:
        """All of it."""
        return self.detected is not None and self.playbook and self.cause and self.fixed


@lru_cache(maxsize=1)
def shipped() -> tuple[tuple[RuleGroup, ...], dict[str, Playbook]]:
    """The rules and playbooks that come with Trimtab, beside the SLO above."""
    groups = load_rules(shipped_files(), limits=SLO)
    windows = {rule.name: rule.for_seconds for group in groups for rule in group.rules}
    return groups, load_playbooks(sorted(PLAYBOOKS.glob("*.yaml")), windows)


def rarely(groups: Sequence[RuleGroup], seconds: float = RARE_SECONDS) -> tuple[RuleGroup, ...]:
    """The same rules, evaluated no more often than this."""
    return tuple(replace(group, interval_seconds=max(group.interval_seconds, seconds)) for group in groups)


def found(job: tuple[FaultName, int]) -> Found:
    """Live through one fault and seed."""
    begun = time.process_time()
    fault = draw(*job)
    node = TroubledNode(fault, fault.seed, START, second_replica=fault.seed % 2 == 1)
    groups, walks = shipped()
    if fault.slow:
        groups = rarely(groups)
    with quietly(), tempfile.TemporaryDirectory(prefix="trimtab-detect-") as nowhere:
        world = World(node, groups, walks, Path(nowhere), coarse=COARSE_SECONDS if fault.slow else 1.0)
        try:
            return _lived(world, fault, begun)
        finally:
            world.close()


def _lived(world: World, fault: Fault, begun: float) -> Found:
    node, onset = world.node, START + fault.onset_seconds
    mended: list[tuple[float, bool]] = []

    def enough(_: World) -> bool:
        # Looked at when the right run ends, and not when the clock runs out.
        if node.now < onset or (not fault.slow and round(node.now) % LOOK_SECONDS):
            return False
        if any(_names(walk, fault) and walk.state == "succeeded" for walk in world.walks()):
            assert node.ailment is not None
            mended.append((node.now, node.ailment.mended() and _left_in_time(world)))
            return True
        return False

    within = SLOW_WITHIN_SECONDS if fault.slow else WITHIN_SECONDS
    live(node, world.live(onset + within, enough))
    above = [alert for alert in world.fired if alert.severity != "info"]
    after = [alert for alert in above if (alert.fired_at or 0.0) >= onset]
    first = min(after, key=lambda alert: alert.fired_at or 0.0, default=None)
    walks = [walk for walk in world.walks() if walk.queued >= onset]
    return Found(
        fault.name,
        fault.seed,
        fault.variant,
        dict(fault.magnitude),
        node.second_replica,
        None if first is None else first.rule,
        None if first is None else (first.fired_at or 0.0) - onset,
        any(walk.playbook in RIGHT[fault.name] and walk.walked for walk in walks),
        _named(walks) == fault.name,
        any(good for _, good in mended),
        mended[0][0] - onset if mended and mended[0][1] else None,
        tuple(alert.rule for alert in above if (alert.fired_at or 0.0) < onset),
        tuple(walks),
        time.process_time() - begun,
    )


def _names(walk: Walk, fault: Fault) -> bool:
    return walk.playbook in RIGHT[fault.name] and walk.cause == fault.name


def _named(walks: Sequence[Walk]) -> str | None:
    """The cause that the runs come to: the first one named."""
    return next((walk.cause for walk in walks if walk.walked and walk.cause is not None), None)


def _left_in_time(world: World) -> bool:
    return world.hands.away_seconds is None or world.hands.away_seconds <= LEAVE_SECONDS


def all_found(seeds: Sequence[int], faults: Iterable[FaultName] = FAULTS, processes: int = 2) -> list[Found]:
    """Run every seed of every fault, in processes of their own."""
    jobs = [(fault, seed) for fault in faults for seed in seeds]
    if processes == 1:
        return [found(job) for job in jobs]
    with multiprocessing.get_context("spawn").Pool(processes, maxtasksperchild=16) as pool:
        return pool.map(found, jobs, chunksize=1)


def table(outcomes: Sequence[Found]) -> str:
    """One row for each fault."""
    lines = [
        f"{'fault':<14} {'seeds':>5} {'detected':>8} {'playbook':>8} {'cause':>5} {'fixed':>5} {'all':>4}"
        f" {'seen after':>14} {'fixed after':>12} {'CPU':>6}"
    ]
    for name in dict.fromkeys(one.fault for one in outcomes):
        own = [one for one in outcomes if one.fault == name]
        seen = [one.detected_after for one in own if one.detected_after is not None]
        done = [one.fixed_after for one in own if one.fixed_after is not None]
        lines.append(
            f"{name:<14} {len(own):>5} {sum(one.detected is not None for one in own):>8}"
            f" {sum(one.playbook for one in own):>8} {sum(one.cause for one in own):>5}"
            f" {sum(one.fixed for one in own):>5} {sum(one.good for one in own):>4}"
            f" {_times(seen):>14} {_times(done):>12} {sum(one.cpu_seconds for one in own):>4.0f} s"
        )
    return "\n".join(lines)


def summary(outcomes: Sequence[Found]) -> str:
    """All faults together, and each run that falls short."""
    good = sum(one.good for one in outcomes)
    alarms = sum(len(one.false_alarms) for one in outcomes)
    lines = [f"{good} of {len(outcomes)} found, named and mended; {alarms} alerts above info before an onset"]
    lines += [
        f"  {one.fault} {one.seed} {one.variant}: "
        + ", ".join(
            word
            for word, held in (
                ("not detected", one.detected is None),
                ("not its playbook", not one.playbook),
                (f"cause {_named(one.walks)}", not one.cause),
                ("not mended", not one.fixed),
            )
            if held
        )
        for one in outcomes
        if not one.good
    ]
    return "\n".join(lines)


def reached(outcomes: Sequence[Found]) -> bool:
    """Whether enough of all, and of each fault, is found, named and mended."""
    if sum(one.good for one in outcomes) < ENOUGH_SHARE * len(outcomes):
        return False
    for name in {one.fault for one in outcomes}:
        own = [one for one in outcomes if one.fault == name]
        if sum(one.good for one in own) < ENOUGH_EACH * len(own):
            return False
    return True


def figures(outcomes: Sequence[Found]) -> dict[str, Any]:
    """The same for programs."""
    return {
        "runs": [{**asdict(one), "good": one.good} for one in outcomes],
        "good": sum(one.good for one in outcomes),
        "of": len(outcomes),
        "reached": reached(outcomes),
    }


def _times(seconds: Sequence[float]) -> str:
    if not seconds:
        return "-"
    unit, divisor = ("h", 3600.0) if median(seconds) >= 7200.0 else ("s", 1.0)
    return f"{median(seconds) / divisor:.3g}/{max(seconds) / divisor:.3g} {unit}"
