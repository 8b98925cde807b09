"""Lengths and arrivals as exponential averages over windows."""

from __future__ import annotations

import pytest

from tests.tuner.records import record
from tuner.prediction import LEAST, WINDOW, WINDOW_SECONDS, Predictor


def window(
    predictor: Predictor, begin: float, count: int, *, prompt: int, output: int, seconds: float
) -> float:
    """Let `count` requests finish evenly over `seconds`; the time it is then."""
    for number in range(count):
        predictor.note(
            begin + seconds * (number + 1) / count,
            [record(begin, tokens=output, prompt=prompt)],
            0.0,
        )
    return begin + seconds


def test_nothing_is_predicted_before_the_first_window() -> None:
    predictor = Predictor()
    predictor.note(0.0, [], 0.0)
    window(predictor, 0.0, WINDOW - 1, prompt=100, output=10, seconds=10.0)
    assert predictor.forecast is None


def test_the_first_window_is_taken_whole_and_each_later_one_by_a_tenth() -> None:
    predictor = Predictor()
    predictor.note(0.0, [], 0.0)
    now = window(predictor, 0.0, WINDOW, prompt=100, output=20, seconds=50.0)
    first = predictor.forecast
    assert first is not None
    assert first.held == pytest.approx(110.0)
    assert first.rate == pytest.approx(2.0)
    window(predictor, now, WINDOW, prompt=1100, output=20, seconds=25.0)
    second = predictor.forecast
    assert second is not None
    assert second.held == pytest.approx(0.9 * 110 + 0.1 * 1110)
    assert second.rate == pytest.approx(0.9 * 2 + 0.1 * 4)
    assert second.rate_sd == pytest.approx((0.1 * 2.0**2) ** 0.5)


def test_long_answers_count_by_the_time_they_are_there() -> None:
    predictor = Predictor()
    predictor.note(0.0, [], 0.0)
    half = [record(0.0, tokens=10, prompt=100)] * (WINDOW // 2)
    predictor.note(10.0, half + [record(0.0, tokens=990, prompt=100)] * (WINDOW // 2), 0.0)
    forecast = predictor.forecast
    assert forecast is not None
    # Nearly all who run at a time are the long ones, on average at half of their answer.
    assert forecast.held == pytest.approx(0.01 * 105 + 0.99 * 595)
    assert forecast.held_sd > 250


def test_requests_that_are_still_inside_have_arrived_too() -> None:
    predictor = Predictor()
    predictor.note(0.0, [], 0.0)
    predictor.note(10.0, [record(0.0)] * WINDOW, 50.0)
    forecast = predictor.forecast
    assert forecast is not None and forecast.rate == pytest.approx(15.0)


def test_thin_traffic_ends_a_window_by_time() -> None:
    predictor = Predictor()
    predictor.note(0.0, [], 0.0)
    predictor.note(WINDOW_SECONDS, [record(0.0)] * (LEAST - 1), 0.0)
    assert predictor.forecast is None
    predictor.note(WINDOW_SECONDS + 1, [record(0.0)], 0.0)
    assert predictor.forecast is not None
