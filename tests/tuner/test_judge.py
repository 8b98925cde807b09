"""The statistics of paired gains."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tuner import judge


@pytest.mark.parametrize("count", [5, 12, 18, 24])
def test_the_p_value_is_scipys_exact_one(count: int) -> None:
    gains = np.random.default_rng(count).normal(0.3, 1.0, count)
    expected = stats.wilcoxon(gains, alternative="greater", method="exact").pvalue
    assert judge.signed_rank_p(list(gains)) == pytest.approx(expected)


def test_windows_that_are_all_equal_are_no_evidence() -> None:
    assert judge.signed_rank_p([0.0] * 24) >= 0.5


@given(st.lists(st.floats(-1, 1), min_size=12, max_size=24, unique=True))
def test_the_interval_ends_where_the_test_stops_rejecting(gains: list[float]) -> None:
    found = judge.estimate(gains)
    assert found.low <= found.median <= found.high
    below = [gain - (found.low - 1e-6) for gain in gains]
    above = [gain - (found.low + 1e-6) for gain in gains]
    assert judge.signed_rank_p(below) <= judge.NOMINAL_LEVEL < judge.signed_rank_p(above) + 0.004


def test_the_estimate_of_few_pairs_claims_nothing() -> None:
    found = judge.estimate([0.5, 0.4, 0.6])
    assert found.low == -math.inf and found.high == math.inf and found.median == pytest.approx(0.5)


def test_three_looks_together_keep_the_promised_error() -> None:
    rng = np.random.default_rng(20)
    wrong = 0
    for _ in range(4000):
        gains = rng.normal(0.0, 1.0, judge.LOOKS[-1]).tolist()
        wrong += any(judge.signed_rank_p(gains[:look]) <= judge.NOMINAL_LEVEL for look in judge.LOOKS)
    # 2.5% with a standard error of 0.25% over 4000 runs.
    assert wrong / 4000 <= judge.CONFIRM_LEVEL + 0.005


def test_the_detectable_gain_is_found_in_eight_of_ten_cases() -> None:
    rng = np.random.default_rng(21)
    gain = judge.detectable_gain(1.0)
    found = 0
    for _ in range(2000):
        gains = rng.normal(gain, 1.0, judge.LOOKS[-1]).tolist()
        found += any(judge.signed_rank_p(gains[:look]) <= judge.NOMINAL_LEVEL for look in judge.LOOKS)
    assert found / 2000 == pytest.approx(0.8, abs=0.03)
