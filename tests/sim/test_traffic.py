"""Arrivals and lengths are those asked for, and depend on the seed alone."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sim.traffic import Arrivals, Mix, Traffic


def drawn(arrivals: Arrivals, seconds: float, seed: int = 1) -> tuple[np.ndarray, ...]:
    traffic = Traffic(arrivals, np.random.default_rng(seed), 0.0)
    parts: list[tuple[list[float], list[int], list[int], list[int]]] = []
    while not parts or parts[-1][0][-1] < seconds:
        parts.append(traffic.chunk())
    columns = [np.concatenate([part[i] for part in parts]) for i in range(4)]
    kept = columns[0] < seconds
    return tuple(column[kept] for column in columns)


def test_poisson_arrivals_come_at_the_mean_rate_with_independent_gaps() -> None:
    times, *_ = drawn(Arrivals(6.0), 20_000.0)
    gaps = np.diff(times)
    assert len(times) / 20_000.0 == pytest.approx(6.0, rel=0.02)
    assert gaps.std() / gaps.mean() == pytest.approx(1.0, abs=0.03)
    assert (gaps > 0).all()


def test_lengths_are_the_guides_mix() -> None:
    _, prompts, outputs, cached = drawn(Arrivals(6.0), 10_000.0)
    shares = [float(np.mean(prompts == size)) for size in (128, 512, 1024)]
    assert shares == pytest.approx([0.5, 0.3, 0.2], abs=0.01)
    assert (outputs.min(), outputs.max()) == (16, 256)
    assert np.log(outputs).mean() == pytest.approx(math.log(64), abs=0.03)
    assert outputs.mean() == pytest.approx(Mix().mean_output, rel=0.02)
    assert prompts.mean() == pytest.approx(Mix().mean_prompt, rel=0.02)
    assert not cached.any()


def test_bursts_are_uneven_at_the_same_rate() -> None:
    times, *_ = drawn(Arrivals(6.0, burstiness=2.0), 20_000.0)
    gaps = np.diff(times)
    assert len(times) / 20_000.0 == pytest.approx(6.0, rel=0.05)
    assert gaps.std() / gaps.mean() == pytest.approx(2.0, rel=0.1)


def test_the_daily_swing_has_its_amplitude_and_its_period() -> None:
    times, *_ = drawn(Arrivals(10.0, amplitude=0.3, period_seconds=1000.0), 40_000.0)
    by_phase, _ = np.histogram(times % 1000.0, bins=20)
    rates = by_phase / (40_000.0 / 20)
    assert rates.mean() == pytest.approx(10.0, rel=0.02)
    assert rates.max() == pytest.approx(13.0, rel=0.05)
    assert rates.min() == pytest.approx(7.0, rel=0.05)


def test_a_shift_changes_rate_and_mix_at_its_time() -> None:
    later = Mix(prompts=((64, 1.0),), output_low=8, output_high=8)
    times, prompts, outputs, _ = drawn(
        Arrivals(10.0, shift_seconds=500.0, rate_after=2.0, mix_after=later), 5000.0
    )
    before = times < 500.0
    assert before.sum() / 500.0 == pytest.approx(10.0, rel=0.1)
    assert (~before).sum() / 4500.0 == pytest.approx(2.0, rel=0.1)
    assert (prompts[before] >= 128).all()
    assert (prompts[~before] == 64).all()
    assert (outputs[~before] == 8).all()


def test_a_cached_share_is_whole_blocks_and_less_than_the_prompt() -> None:
    _, prompts, _, cached = drawn(Arrivals(10.0, mix=Mix(cached_share=0.6)), 200.0)
    assert (cached % 128 == 0).all()
    assert (cached < prompts).all()
    assert set(cached[prompts == 1024]) == {512}


def test_equal_seeds_give_equal_traffic() -> None:
    one, same, other = (drawn(Arrivals(6.0, amplitude=0.3), 500.0, seed) for seed in (1, 1, 2))
    assert all((a == b).all() for a, b in zip(one, same, strict=True))
    assert len(one[0]) != len(other[0]) or (one[0] != other[0]).any()
