"""Scenarios hold what they promise, on development seeds."""

from __future__ import annotations

import pytest

from change.engine import Values
from sim.landscape import (
    PRIORS,
    draw_config,
    objective,
    paired_sd,
    quantile_of_gaps,
    score,
    seeds_of,
    windows,
)
from sim.node import Node
from sim.scenario import CEILINGS, FLOORS, HOST_STORY_KNOBS, HOT_KNOBS, LAUNCH, SCENARIOS, capacity, stream
from sim.truth import simulate

SECONDS = 300.0


def truth(scenario: str, seed: int, values: Values) -> float:
    return score(simulate(scenario, seed, values, SECONDS))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_each_has_one_and_only_one_life_per_seed(scenario: str) -> None:
    chosen = SCENARIOS[scenario]
    assert chosen.name == scenario
    assert chosen.drawn(101) == chosen.draw(stream(101, "hidden"))
    assert set(HOT_KNOBS) == set(LAUNCH) == set(CEILINGS) == set(FLOORS)
    assert set(chosen.knobs) <= {*HOT_KNOBS, *HOST_STORY_KNOBS}
    # One story is told without a draw.
    assert (chosen.drawn(101) == chosen.drawn(102)) == (scenario == "guide-235b-plain")


@pytest.mark.parametrize("seed", [101, 104, 109, 118])
def test_the_default_engine_is_busy_without_a_standing_queue(seed: int) -> None:
    drawn = SCENARIOS["default"].drawn(seed)
    assert 0.5 < drawn.arrivals.rate / capacity(drawn.physics, drawn.arrivals.mix, LAUNCH) < 0.8
    node = Node("default", seed, 0.0)
    queues = []
    for second in range(1, 601):
        node.advance(float(second))
        queues.append(node.waiting)
    assert sorted(queues)[300] <= 3
    assert queues.count(0) > 100


@pytest.mark.parametrize("seed", [101, 104, 109, 118])
def test_the_default_landscape_has_a_gain_that_no_prior_finds(seed: int) -> None:
    start = truth("default", seed, {})
    best = min(truth("default", seed, {"max_prefill_tokens": cap}) for cap in (160, 192, 224, 256, 288))
    assert 0.25 < 1 - best / start < 0.65
    for prior in PRIORS:
        assert (start - truth("default", seed, prior)) / (start - best) < 0.5
    assert truth("default", seed, {"max_prefill_tokens": 64}) > 1.5 * start
    assert truth("default", seed, {"max_num_seqs": 16}) > 1.5 * start


def test_windows_of_the_default_scenario_are_noisy_but_not_hopeless() -> None:
    sds = [paired_sd(windows(SCENARIOS["default"], seed, 900.0)) for seed in (101, 104, 109, 118)]
    assert 0.08 <= sorted(sds)[1] <= 0.4


@pytest.mark.parametrize("seed", [101, 107])
def test_nothing_beats_the_launch_values_in_default_is_best(seed: int) -> None:
    start = truth("default-is-best", seed, {})
    rng = stream(seed, "test")
    tried = [draw_config(rng) for _ in range(12)] + [dict(prior) for prior in PRIORS]
    tried += [{"max_prefill_tokens": float(cap)} for cap in (256, 1024, 2048)] + [{"max_num_seqs": 64.0}]
    assert min(truth("default-is-best", seed, values) for values in tried) > 0.99 * start


def test_thin_traffic_is_thin() -> None:
    node = Node("thin", 101, 0.0)
    node.advance(3600.0)
    assert 40 < node.completed < 110


def test_the_workload_shifts_midway() -> None:
    node = Node("shift", 101, 0.0)
    node.advance(7000.0)
    node.engine.finished.clear()
    node.advance(7100.0)
    before = [row[7] for row in node.engine.finished]
    node.advance(7400.0)
    node.engine.finished.clear()
    node.advance(7500.0)
    after = [row[7] for row in node.engine.finished]
    assert sum(after) / len(after) > 1.4 * sum(before) / len(before)


def test_figures_of_windows_are_what_they_say() -> None:
    assert quantile_of_gaps({0: 9, 200: 1}, 0.85) < 1.05e-4
    assert quantile_of_gaps({0: 1, 100: 9}, 0.9) == pytest.approx(1e-4 * 1.05**100.89, rel=0.01)
    assert objective([0.1] * 10, {100: 10}) == pytest.approx((0.1 * 1e-4 * 1.05**100.9) ** 0.5)
    assert seeds_of("101-103,110") == [101, 102, 103, 110]
