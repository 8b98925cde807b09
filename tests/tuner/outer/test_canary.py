"""Two replicas at the same time: pairs by time, and what cancels in them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from change.journal import Journal
from change.server import Settings
from daemon.headless import START, node_gauges
from daemon.simulated_cold import simulated_cold
from sim.cold_story import HONOURED
from sim.node import Node
from sim.virtual_time import live
from store import open_store
from tuner.messages import Observation
from tuner.objective import scale
from tuner.outer.alternation import Served, compare
from tuner.outer.canary import beside, pairs_in_time
from tuner.outer.stint import Stint
from tuner.settings import Objective, Slo
from tuner.switchback import Arm, ScoredWindow
from tuner.window import Interval

RATE = scale(Objective("throughput"), Slo(), saturated=True)


def window(
    start: float, rate: float = 100.0, *, seconds: float = 60.0, reason: str | None = None
) -> ScoredWindow:
    interval = Interval(1, start, start, start + seconds)
    return ScoredWindow(1, 0, Arm(None, {}), interval, {"output_tokens_per_second": rate}, {}, (), {}, reason)


def test_windows_pair_with_the_one_they_share_most_time_with_and_only_once() -> None:
    canary = [window(0.0), window(62.0), window(124.0, reason="lost"), window(190.0)]
    base = [window(10.0), window(72.0), window(134.0), window(400.0)]
    pairs = pairs_in_time(canary, base)
    assert [(a.interval.start, b.interval.start) for a, b in pairs] == [(0.0, 10.0), (62.0, 72.0)]


def test_what_hits_both_at_once_cancels_however_it_changes() -> None:
    swing = [100.0 * math.exp(0.5 * math.sin(i)) for i in range(12)]
    canary = [window(60.0 * i, 1.2 * rate) for i, rate in enumerate(swing)]
    base = [window(60.0 * i + 5.0, rate) for i, rate in enumerate(swing)]
    found = beside(canary, base, RATE)
    assert found is not None and found.score == pytest.approx(math.log(1.2))
    assert found.error < 1e-6


def test_pairs_that_follow_one_another_alike_are_less_sure() -> None:
    rng = np.random.default_rng(3)
    steps = np.cumsum(rng.normal(0, 0.02, 30))
    base = [window(60.0 * i) for i in range(30)]
    wander = beside([window(60.0 * i, 100 * math.exp(x)) for i, x in enumerate(steps)], base, RATE)
    mixed = rng.permutation(steps)
    shuffled = beside([window(60.0 * i, 100 * math.exp(x)) for i, x in enumerate(mixed)], base, RATE)
    assert wander is not None and shuffled is not None and wander.error > 1.5 * shuffled.error


def test_too_few_common_windows_are_no_score() -> None:
    assert beside([window(0.0)], [window(0.0)], RATE) is None


def test_two_simulated_nodes_tell_a_better_block_size_apart_at_the_same_time() -> None:
    canary, base = Node("guide-235b-plain", 1, START), Node("guide-235b-plain", 2, START)
    for node in (canary, base):
        node.advance(START + 60.0)

    async def run() -> list[Served]:
        lane = simulated_cold(canary, Journal(open_store("sqlite:///:memory:"), "canary")).lane
        better: Settings = {"block_size": 64, "pipeline_parallel_size": 4, "tensor_parallel_size": 1}
        found = []
        for place, settings in enumerate((None, better, dict(HONOURED.launch), better)):
            if settings is not None:
                await lane.restart(settings, actor="test", kind="trial")
            base.advance(canary.now)
            mine, theirs = await stints(canary, base)
            score = beside(mine.windows, theirs.windows, RATE)
            assert score is not None
            found.append(Served(place % 2, score))
        return found

    served = live(canary, run())
    found = compare(served, 1)
    assert found is not None and found.holds(math.log1p(0.10), 3.0)
    assert found.gain > math.log(1.2)


async def stints(*nodes: Node) -> list[Stint]:
    """One stint on each node, second by second at the same time."""
    found = [Stint(await node.control.state(), Slo(), 8.0, None, 85.0) for node in nodes]
    since = [(await node.control.requests(10**9)).next_since for node in nodes]
    while not all(stint.over for stint in found):
        for place, (node, stint) in enumerate(zip(nodes, found, strict=True)):
            node.advance(node.now + 1.0)
            page = await node.control.requests(since[place])
            since[place] = page.next_since
            seen = node_gauges(node)
            stint.step(node.now, Observation(await node.control.state(), page, seen.running, seen.waiting))
    return found
