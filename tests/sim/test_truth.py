"""The truth of a config is its own alone: the same arrivals for all, no noise, quick to have."""

from __future__ import annotations

import time

import pytest

from sim.scenario import SCENARIOS
from sim.truth import WARM_UP_SECONDS, simulate


def test_the_arrivals_are_the_same_whatever_is_served() -> None:
    pages = [
        simulate("default", 101, values, 120.0)
        for values in ({}, {"max_prefill_tokens": 300}, {"max_prefill_tokens": 200})
    ]
    known = [
        {
            (r.arrival, r.prompt_tokens, r.output_tokens)
            for r in page.records
            if WARM_UP_SECONDS < r.arrival < 100
        }
        for page in pages
    ]
    assert known[0] == known[1] == known[2]
    assert len({page.records[50].finish for page in pages}) == 3


def test_it_is_the_same_each_time_and_another_with_another_seed() -> None:
    assert simulate("default", 101, {}, 60.0) == simulate("default", 101, {}, 60.0)
    assert simulate("default", 101, {}, 60.0).records != simulate("default", 102, {}, 60.0).records


def test_noise_is_there_only_when_asked_for() -> None:
    quiet, noisy = (simulate("default", 101, {}, 60.0, noise=noise) for noise in (False, True))
    assert quiet.records != noisy.records
    assert {r.arrival for r in quiet.records} & {r.arrival for r in noisy.records}


def test_the_warm_up_does_not_count() -> None:
    page = simulate("default", 101, {}, 60.0)
    assert all(r.first_token is not None and r.first_token >= WARM_UP_SECONDS for r in page.records)
    assert set(page.gaps) == {1}


def test_knobs_without_effect_are_truly_without() -> None:
    launch = simulate("aa", 101, {}, 120.0)
    assert simulate("aa", 101, {"max_prefill_tokens": 64, "max_num_seqs": 20}, 120.0) == launch


def test_a_swing_is_left_out_of_the_truth() -> None:
    scenario = SCENARIOS["diurnal"]
    page = simulate(scenario, 101, {}, 1200.0)
    rates = [
        sum(1 for r in page.records if low <= r.arrival < low + 300) / 300 for low in (20, 320, 620, 900)
    ]
    assert rates == pytest.approx([scenario.drawn(101).arrivals.rate] * 4, rel=0.15)


def test_six_hundred_seconds_cost_little() -> None:
    simulate("default", 101, {}, 10.0)
    began = time.process_time()
    simulate("default", 101, {}, 600.0)
    assert time.process_time() - began < 0.35
