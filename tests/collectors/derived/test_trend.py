"""Growth is steady only if every part of it grows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.derived.trend import Floats, block_means, steady_growth, theil_sen
from tests.collectors.derived.stories import red_noise

HOURS = np.linspace(0.0, 12.0, 73)


def steady(values: Floats, times: Floats = HOURS) -> float:
    found = steady_growth(times, values)
    assert found is not None
    return found[1]


def test_a_straight_line_is_its_own_slope() -> None:
    slope = theil_sen(HOURS, 5.0 + 2.0 * HOURS)
    assert (slope.middle, slope.low, slope.high) == pytest.approx((2.0, 2.0, 2.0))
    assert steady(5.0 + 2.0 * HOURS) == pytest.approx(2.0)


def test_a_fifth_of_wild_readings_does_not_turn_the_slope() -> None:
    draw = np.random.default_rng(1)
    values = 2.0 * HOURS
    values[draw.choice(len(values), len(values) // 5, replace=False)] += 500.0
    assert theil_sen(HOURS, values).middle == pytest.approx(2.0, abs=0.2)


def test_the_interval_holds_the_true_slope_as_often_as_it_says() -> None:
    draw = np.random.default_rng(2)
    held = 0
    for _ in range(200):
        slope = theil_sen(HOURS, 2.0 * HOURS + draw.standard_normal(len(HOURS)))
        held += slope.low <= 2.0 <= slope.high
    assert 180 <= held <= 199


@pytest.mark.parametrize(
    "values",
    [
        np.full(73, 7.0),
        np.minimum(HOURS, 4.0),
        1.0 - np.exp(-HOURS),
        np.where(HOURS > 5.0, 10.0, 0.0),
        np.where(HOURS > 3.0, 10.0, 0.0) + np.where(HOURS > 9.0, 10.0, 0.0),
        HOURS % 4.0,
        HOURS % 1.0,
        np.where(HOURS > 9.0, HOURS - 9.0, HOURS),
        np.sin(HOURS / 12.0 * 2.0 * np.pi),
        -HOURS,
    ],
    ids=[
        "flat",
        "warm-up",
        "slow-warm-up",
        "step",
        "two-steps",
        "saw-tooth",
        "fast-saw-tooth",
        "one-drop",
        "wave",
        "falling",
    ],
)
@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_what_is_not_steady_growth(values: Floats, noise: float) -> None:
    draw = np.random.default_rng(3)
    noisy = values + noise * draw.standard_normal(len(values))
    # A warm-up that slows down for ever still grows a little at its end: far below what it began with.
    assert steady(noisy) <= 0.001


def test_noise_is_seldom_growth() -> None:
    draw = np.random.default_rng(4)
    for memory in (0.0, 0.5, 0.9):
        shown = [steady(red_noise(draw, len(HOURS), memory)) > 0.0 for _ in range(200)]
        assert sum(shown) <= 2, f"noise with memory {memory}"


def test_steps_between_the_quarters_are_not_growth_within_them() -> None:
    draw = np.random.default_rng(9)
    steps = np.floor(HOURS / 3.0)
    assert not any(steady(steps + 0.05 * draw.standard_normal(len(HOURS))) > 0.0 for _ in range(100))


def test_growth_beneath_noise_is_found() -> None:
    draw = np.random.default_rng(5)
    shown = [steady(HOURS + 0.5 * draw.standard_normal(len(HOURS))) for _ in range(50)]
    assert sum(low > 0.0 for low in shown) >= 45
    assert all(low <= 1.2 for low in shown)


def test_a_part_with_few_points_bounds_nothing() -> None:
    assert steady_growth(HOURS[:12], HOURS[:12]) is None
    gap = np.concatenate([HOURS[:20], HOURS[-3:]])
    assert steady_growth(gap, gap) is None
    assert steady_growth(np.array([]), np.array([])) is None


VALUES = st.lists(st.integers(-100, 100), min_size=24, max_size=40)
"""Whole numbers and scales of two: equal values stay equal."""


@given(VALUES, st.sampled_from([0.125, 0.5, 4.0, 1024.0]), st.integers(-1000, 1000))
@settings(deadline=None, max_examples=50)
def test_growth_scales_with_the_unit_and_not_with_the_level(
    values: list[int], scale: float, level: int
) -> None:
    times = np.arange(float(len(values)))
    plain = steady_growth(times, np.array(values))
    moved = steady_growth(times, scale * np.array(values) + level)
    assert plain is not None and moved is not None
    assert moved[0].middle == pytest.approx(scale * plain[0].middle, rel=1e-6, abs=1e-6)
    assert moved[1] == pytest.approx(scale * plain[1], rel=1e-6, abs=1e-6)


@given(st.lists(st.floats(0.0, 1e5), min_size=1, max_size=50, unique=True), st.floats(1.0, 1e4))
def test_blocks_keep_the_mean_of_all(times: list[float], seconds: float) -> None:
    at = 1.7e9 + np.array(sorted(times))
    mean_times, means = block_means(at, at - 1.7e9, seconds)
    assert np.all(np.diff(mean_times) > 0.0) or len(mean_times) == 1
    assert means == pytest.approx(mean_times - 1.7e9, abs=1e-3)
