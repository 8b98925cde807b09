"""Days of a healthy, well used replica: what the shipped rules and playbooks make of noise."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.detect import START, shipped
from bench.detect_world import World, quietly
from sim.faults import TroubledNode
from sim.faults.healthy import Weather
from sim.faults.replica import BUSY_REPLICA, DAY_SECONDS
from sim.virtual_time import live

LOOK_SECONDS = 20.0
"""Between two readings of each source and evaluations of each rule; the engine below lives step by step."""
MOST_ALERTS = 1
PEAK_AICORE, PEAK_KV = 0.75, 0.80


@dataclass(frozen=True, slots=True)
class Week:
    """What came of it: alerts as rule and day, actions by their kind, and how busy the replica was at its peaks."""

    days: float
    alerts: tuple[tuple[str, float], ...]
    """Those above info."""
    informed: int
    """Those that only inform."""
    actions: tuple[str, ...]
    walks: tuple[str, ...]
    aicore_peak: float
    """The 99th percentile of the readings."""
    kv_peak: float
    requests: int
    cpu_seconds: float

    @property
    def good(self) -> bool:
        """At most one alert above info, and nothing done."""
        return len(self.alerts) <= MOST_ALERTS and not self.actions


def lived(days: float = 7.0, seed: int = 1) -> Week:
    """Live through so many days."""
    begun = time.process_time()
    node = TroubledNode(None, seed, START, scenario=BUSY_REPLICA)
    weather = Weather(node)
    groups, playbooks = shipped()
    seen: list[tuple[float, float]] = []

    def enough(_: World) -> bool:
        weather.live(node.now)
        seen.append((node.cards[0].aicore, node.kv_usage))
        return False

    with quietly(), tempfile.TemporaryDirectory(prefix="trimtab-healthy-") as nowhere:
        world = World(node, groups, playbooks, Path(nowhere), coarse=LOOK_SECONDS)
        try:
            live(node, world.live(START + days * DAY_SECONDS, enough))
            return Week(
                days,
                tuple(
                    (alert.rule, ((alert.fired_at or START) - START) / DAY_SECONDS)
                    for alert in world.fired
                    if alert.severity != "info"
                ),
                sum(alert.severity == "info" for alert in world.fired),
                tuple(action.kind for action in world.hands.done if action.kind != "notify"),
                tuple(f"{walk.playbook}: {walk.state}" for walk in world.walks()),
                _high([aicore for aicore, _ in seen]),
                _high([kv for _, kv in seen]),
                node.completed,
                time.process_time() - begun,
            )
        finally:
            world.close()


def told(week: Week) -> str:
    """The figures in words."""
    lines = [
        f"{week.days:g} days, {week.requests} requests, peaks of {week.aicore_peak:.0%} AICore and"
        f" {week.kv_peak:.0%} KV: {len(week.alerts)} alerts above info, {week.informed} that inform,"
        f" {len(week.actions)} actions, {week.cpu_seconds:.0f} s of CPU",
    ]
    lines += [f"  day {day:.2f}: {rule}" for rule, day in week.alerts]
    lines += [f"  walked {walk}" for walk in week.walks]
    lines += [f"  did {kind}" for kind in week.actions]
    return "\n".join(lines)


def _high(values: Sequence[float]) -> float:
    return sorted(values)[int(0.99 * (len(values) - 1))] if values else 0.0
