"""A planted period is found with its length; noise, with whatever memory, is seldom called periodic."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.derived.periodicity import Floats, Period, find_period
from tests.collectors.derived.stories import red_noise

LENGTH = 420
Draw = np.random.Generator
NOISE: dict[str, Callable[[Draw], Floats]] = {
    "white": lambda draw: draw.standard_normal(LENGTH),
    "memory 0.5": lambda draw: red_noise(draw, LENGTH, 0.5),
    "memory 0.9": lambda draw: red_noise(draw, LENGTH, 0.9),
    "drift beneath readings": lambda draw: red_noise(draw, LENGTH, 0.9) + 1.5 * draw.standard_normal(LENGTH),
    "random walk": lambda draw: np.cumsum(draw.standard_normal(LENGTH)),
    "heavy tails": lambda draw: draw.standard_t(1.5, LENGTH),
    "gaps": lambda draw: np.where(draw.random(LENGTH) < 0.3, np.nan, red_noise(draw, LENGTH, 0.6)),
}
TRIALS = 60


@pytest.mark.parametrize("noise", NOISE.values(), ids=NOISE)
def test_noise_is_called_periodic_no_more_often_than_the_confidence_says(
    noise: Callable[[Draw], Floats],
) -> None:
    draw = np.random.default_rng(11)
    found = [find_period(noise(draw)) for _ in range(TRIALS)]
    wrong = sum(period is not None and period.confidence >= 0.95 for period in found)
    # Of 60 trials at 5%, more than 7 would be chance in one case of a hundred.
    assert wrong <= 7


def wave(draw: Draw, period: float, memory: float = 0.0) -> Floats:
    phase = np.arange(LENGTH) + draw.random() * period
    swing: Floats = np.sin(2.0 * np.pi * phase / period)
    return swing + red_noise(draw, LENGTH, memory)


def spikes(draw: Draw, period: float, height: float, width: float = 1.0) -> Floats:
    phase = (np.arange(LENGTH) + draw.random() * period) % period
    return height * (phase < width) + draw.standard_normal(LENGTH)


@pytest.mark.parametrize(
    ("period", "series"),
    [
        (15.0, lambda draw: wave(draw, 15.0)),
        (30.5, lambda draw: wave(draw, 30.5)),
        (60.0, lambda draw: wave(draw, 60.0)),
        (15.0, lambda draw: 1.5 * wave(draw, 15.0, memory=0.5)),
        (5.0, lambda draw: spikes(draw, 5.0, 3.0)),
        (15.0, lambda draw: spikes(draw, 15.0, 3.0)),
        (60.0, lambda draw: spikes(draw, 60.0, 4.0, width=2.0)),
        (15.0, lambda draw: np.where(draw.random(LENGTH) < 0.15, np.nan, 1.5 * spikes(draw, 15.0, 3.0))),
        (15.0, lambda draw: wave(draw, 15.0) + 500.0 * (draw.random(LENGTH) < 0.02)),
        (30.0, lambda draw: wave(draw, 30.0) + 0.02 * np.arange(LENGTH)),
    ],
    ids=[
        "wave-15",
        "wave-30.5",
        "wave-60",
        "wave-in-red",
        "spikes-5",
        "spikes-15",
        "spikes-60",
        "gaps",
        "long-waits",
        "drift",
    ],
)
def test_a_planted_period_is_found(period: float, series: Callable[[Draw], Floats]) -> None:
    draw = np.random.default_rng(12)
    right = 0
    for _ in range(20):
        found = find_period(series(draw))
        right += found is not None and found.confidence >= 0.95 and abs(found.steps / period - 1.0) < 0.1
    assert right >= 16


def test_a_pure_wave_is_certain_and_strong() -> None:
    found = find_period(np.sin(2.0 * np.pi * np.arange(LENGTH) / 20.0))
    assert found is not None
    assert found.steps == pytest.approx(20.0, abs=0.5)
    assert found.confidence >= 0.99 and found.strength > 0.8


def test_a_wave_too_long_to_be_seen_five_times_is_not_called_a_short_one() -> None:
    draw = np.random.default_rng(13)
    called = 0
    for _ in range(30):
        found = find_period(wave(draw, 150.0))
        called += found is not None and found.confidence >= 0.95
    assert called <= 4


@pytest.mark.parametrize(
    "series",
    [
        np.array([]),
        np.arange(10.0),
        np.full(LENGTH, 3.0),
        np.full(LENGTH, 0.0),
        np.full(LENGTH, np.nan),
        np.where(np.arange(LENGTH) < 250, np.nan, np.sin(np.arange(LENGTH))),
    ],
    ids=["empty", "short", "constant", "zero", "unknown", "mostly-unknown"],
)
def test_too_little_is_no_answer(series: Floats) -> None:
    assert find_period(series) is None


def test_one_long_wait_is_no_period() -> None:
    draw = np.random.default_rng(14)
    series = draw.standard_normal(LENGTH)
    series[100] = series[220] = 500.0
    found = find_period(series)
    assert found is None or found.confidence < 0.95


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.25, 1.0, 8.0]), st.floats(-100.0, 100.0))
@settings(max_examples=8, deadline=None)
def test_unit_and_level_do_not_matter_and_the_answer_is_the_same_each_time(
    seed: int, scale: float, level: float
) -> None:
    series = spikes(np.random.default_rng(seed), 12.0, 3.0)
    plain, again, moved = find_period(series), find_period(series), find_period(scale * series + level)
    assert isinstance(plain, Period) and plain == again and moved is not None
    assert moved.steps == pytest.approx(plain.steps, rel=1e-6)
    assert moved.confidence == pytest.approx(plain.confidence, abs=0.006)


@given(st.lists(st.one_of(st.sampled_from([np.nan, np.inf]), st.floats(-1e9, 1e9)), max_size=120))
@settings(max_examples=40, deadline=None)
def test_any_series_has_a_sane_answer_or_none(series: list[float]) -> None:
    found = find_period(np.array(series))
    if found is not None:
        assert 3.0 <= found.steps <= len(series) / 4.0
        assert 0.0 <= found.strength <= 1.0 and 0.0 <= found.confidence < 1.0
