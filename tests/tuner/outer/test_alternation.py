"""Stints in turn: drift out, the spread between restarts in."""

from __future__ import annotations

import numpy as np
import pytest

from tuner.outer.alternation import Served, compare, other_loss
from tuner.outer.stint import Score


def stints(
    order: list[int], effects: list[float], *, drift: float = 0.0, sd: float = 0.0, seed: int = 0
) -> list[Served]:
    rng = np.random.default_rng(seed)
    return [
        Served(config, Score(3600.0 * place, effects[config] + drift * place + rng.normal(0, sd), 0.004, {}))
        for place, config in enumerate(order)
    ]


def test_a_drift_over_the_alternations_is_no_effect() -> None:
    found = compare(stints([0, 1, 0, 1], [0.0, 0.0], drift=0.08), 1)
    assert found is not None and abs(found.gain) < 1e-6
    assert not found.holds(0.1, 3.0)


def test_an_effect_is_found_beside_a_drift_with_two_candidates() -> None:
    found = compare(stints([0, 1, 2, 0, 1], [0.0, 0.3, 0.1], drift=-0.03), 1)
    assert found is not None and found.gain == pytest.approx(0.3, abs=1e-6)
    assert found.alternations == 2 and found.holds(0.1, 3.0)


def test_one_alternation_decides_nothing_however_large_the_effect() -> None:
    found = compare(stints([0, 1], [0.0, 1.0]), 1)
    assert found is not None and not found.holds(0.1, 3.0)


def test_three_standard_deviations_between_restarts_are_needed() -> None:
    restless = stints([0, 1, 0, 1], [0.0, 0.0])
    scores = [0.0, 0.25, 0.14, 0.05]
    restless = [
        Served(s.config, Score(s.score.time, x, 0.004, {})) for s, x in zip(restless, scores, strict=True)
    ]
    found = compare(restless, 1)
    assert found is not None and found.sd > 0.05 and not found.holds(0.0, 3.0)


def test_equal_configs_are_promoted_by_chance_in_less_than_one_of_a_hundred_cases() -> None:
    wrong = 0
    for seed in range(400):
        found = compare(stints([0, 1, 2, 0, 1], [0.0, 0.0, 0.0], sd=0.03, seed=seed), 1)
        assert found is not None
        wrong += found.holds(0.1, 3.0)
    assert wrong <= 4


def test_the_incumbent_alone_or_an_unknown_config_is_no_comparison() -> None:
    assert compare(stints([0, 0], [0.0]), 1) is None
    assert compare(stints([0, 1], [0.0, 0.1]), 2) is None


def test_the_worst_loss_of_another_metric_is_named() -> None:
    own = Served(0, Score(0.0, 0.0, 0.0, {"ttft_p50_seconds": 0.0, "itl_p50_seconds": 0.0}))
    mine = Served(1, Score(1.0, 0.0, 0.0, {"ttft_p50_seconds": -0.3, "itl_p50_seconds": 0.2}))
    assert other_loss([own, mine], 1, ["ttft_p50_seconds", "itl_p50_seconds"]) == ("ttft_p50_seconds", 0.3)
    assert other_loss([own, mine], 1, ["e2e_p50_seconds"]) is None
