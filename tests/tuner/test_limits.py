"""Soft limits: how sure it is that they hold, and what counts as a loss."""

from __future__ import annotations

import pytest

from tuner.limits import Excess, Limits
from tuner.objective import scale
from tuner.settings import Limit, Objective, Slo


def test_the_chance_that_a_limit_holds_follows_the_excess_and_its_error() -> None:
    assert Excess(0.0, "x", 0.1).chance == pytest.approx(0.5)
    assert Excess(0.1, "x", 0.1).chance == pytest.approx(0.1587, abs=1e-3)
    assert Excess(-1.0, "x", 0.1).chance == pytest.approx(1.0)
    assert Excess(0.1, "x").chance == 0.0
    assert Excess(-0.1, "x").chance == 1.0


def judged(objective: Objective, *limits: Limit, saturated: bool = False) -> set[str]:
    slo = Slo(limits)
    return set(Limits(scale(objective, slo, saturated=saturated), slo, 0.1, saturated).judged())


def test_a_latency_that_is_the_objective_or_has_a_limit_is_no_loss() -> None:
    names = judged(Objective("itl"), Limit("ttft", 0.9, 1.0))
    assert names == {"e2e_p50_seconds", "e2e_p90_seconds", "e2e_p99_seconds"}


def test_tokens_per_second_are_judged_only_where_they_do_not_measure_the_demand() -> None:
    assert "output_tokens_per_second" not in judged(Objective("itl"))
    assert "output_tokens_per_second" in judged(Objective("itl"), saturated=True)
    assert "output_tokens_per_second" not in judged(Objective("throughput"), saturated=True)


def test_where_all_may_be_lost_nothing_is_judged() -> None:
    assert Limits(scale(Objective("itl"), Slo(), saturated=True), Slo(), 1.0, True).judged() == []
