"""Taking the traffic's luck out of a pair."""

from __future__ import annotations

import numpy as np
import pytest

from tuner.adjust import NAMES, Contrast, contrast, fit, unadjusted


def noisy_pairs(count: int, slope: float, seed: int) -> list[Contrast]:
    rng = np.random.default_rng(seed)
    pairs = []
    for index in range(count):
        x = rng.normal(0, 0.3)
        gain = 0.2 * (index % 3) + slope * x + rng.normal(0, 0.05)
        pairs.append(Contrast(index % 3 + 1, {"objective": gain}, (x,) + (0.0,) * (len(NAMES) - 1)))
    return pairs


def test_noise_that_the_traffic_explains_is_taken_out() -> None:
    pairs = noisy_pairs(60, slope=-0.8, seed=1)
    found = fit(pairs, "objective", prior_sd=0.25)
    assert found.coefficients[0] == pytest.approx(-0.8, abs=0.12)
    assert found.sd < 0.12


def test_a_trials_own_effect_is_not_noise() -> None:
    found = fit(noisy_pairs(60, slope=0.0, seed=2), "objective", prior_sd=0.05)
    assert found.sd == pytest.approx(0.05, abs=0.02)


def test_few_pairs_leave_the_calibrated_noise_alone() -> None:
    assert fit(noisy_pairs(5, -0.8, 3), "objective", 0.25) == unadjusted("objective", 0.25)


def test_few_pairs_that_the_traffic_does_not_explain_stay_as_they_were_measured() -> None:
    rng = np.random.default_rng(11)
    adjusted, plain = [], []
    for _ in range(60):
        seen, unseen = (
            [
                Contrast(0, {"objective": rng.normal(0, 0.5)}, tuple(rng.normal(0, 0.3, len(NAMES))))
                for _ in range(count)
            ]
            for count in (11, 20)
        )
        found = fit(seen, "objective", prior_sd=0.5)
        adjusted += [found.gain(pair) for pair in unseen]
        plain += [pair.gains["objective"] for pair in unseen]
    assert np.std(adjusted) < 1.08 * np.std(plain)


def test_the_noise_of_pairs_centred_on_their_trial_is_not_made_small() -> None:
    rng = np.random.default_rng(12)
    found = []
    for _ in range(60):
        pairs = [
            Contrast(trial, {"objective": rng.normal(0, 0.5)}, tuple(rng.normal(0, 0.3, len(NAMES))))
            for trial in range(1, 16)
            for _ in range(2)
        ]
        found.append(fit(pairs, "objective", prior_sd=0.5).sd)
    assert np.mean(found) == pytest.approx(0.5, abs=0.04)


def test_equal_traffic_leaves_a_gain_as_it_is() -> None:
    pairs = noisy_pairs(60, slope=-0.8, seed=4)
    same = dict.fromkeys(NAMES, 5.0)
    pair = contrast(1, {"objective": 0.31}, same, same)
    assert fit(pairs, "objective", 0.25).gain(pair) == pytest.approx(0.31)
