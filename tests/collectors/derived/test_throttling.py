"""A busy card below its rated clock is throttled; an idle one is not, and the driver's word comes first."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.derived import throttling
from collectors.derived.throttling import slow_share
from collectors.history import History
from tests.collectors.derived.stories import NOW, by_labels, card, every, fill

CLOCK = "npu_aicore_frequency_hertz"
RATED = "npu_aicore_rated_frequency_hertz"
USAGE = "npu_aicore_usage_ratio"
FULL = 1.8e9
Of = Callable[[float], float]


def at(value: float) -> Of:
    return lambda time: value


def told(history: History) -> dict[tuple[str, str], float]:
    """Share by card and source."""
    found = by_labels(throttling.samples(history, NOW), "npu_throttled_share_ratio")
    return {(dict(own)["npu"], dict(own)["source"]): value for own, value in found.items()}


def story(
    clock: Of, usage: Of, rated: float | None = FULL, npu: int = 0, history: History | None = None
) -> History:
    history = history if history is not None else History()
    times = every(10.0, 400.0)
    fill(history, CLOCK, card(npu), times, clock)
    fill(history, USAGE, card(npu), times, usage)
    if rated is not None:
        fill(history, RATED, card(npu), times, at(rated))
    return history


def test_a_busy_card_below_its_rated_clock() -> None:
    assert told(story(at(1.4e9), at(0.9))) == {("0", "heuristic"): 1.0}


def test_a_busy_card_that_is_slow_half_of_the_time() -> None:
    found = told(story(lambda time: 1.4e9 if time > NOW - 90.0 else FULL, at(0.9)))
    assert found["0", "heuristic"] == pytest.approx(0.5, abs=0.06)


def test_an_idle_card_at_a_low_clock_says_nothing() -> None:
    assert told(story(at(0.8e9), at(0.02))) == {}


def test_a_card_that_clocks_down_between_bursts_is_not_throttled() -> None:
    def busy(time: float) -> bool:
        return time % 60.0 < 30.0

    history = story(lambda time: FULL if busy(time) else 0.8e9, lambda time: 0.95 if busy(time) else 0.03)
    assert told(history) == {("0", "heuristic"): 0.0}


def test_one_step_of_the_clock_below_the_rated_one_is_full_speed() -> None:
    assert told(story(at(1.75e9), at(0.9))) == {("0", "heuristic"): 0.0}


def test_the_highest_clock_seen_of_the_model_stands_for_an_unknown_rated_one() -> None:
    history = story(at(FULL), at(0.9), rated=None, npu=0)
    story(at(1.2e9), at(0.9), rated=None, npu=1, history=history)
    assert told(history) == {("0", "heuristic"): 0.0, ("1", "heuristic"): 1.0}


def test_a_card_that_never_showed_another_clock_is_not_accused() -> None:
    assert told(story(at(1.2e9), at(0.9), rated=None)) == {("0", "heuristic"): 0.0}


def test_the_driver_is_believed_over_the_clock() -> None:
    history = story(at(1.2e9), at(0.9))
    fill(history, "npu_throttled", card(0), every(10.0, 400.0), at(0.0))
    assert told(history) == {("0", "dcmi"): 0.0}
    history = story(at(FULL), at(0.9))
    fill(
        history, "npu_throttled", card(0, "910B3"), every(10.0, 400.0), lambda time: float(time > NOW - 90.0)
    )
    assert told(history) == {("0", "dcmi"): pytest.approx(0.5, abs=0.06)}


def test_sources_that_spell_the_model_differently_speak_of_one_card() -> None:
    history, times = History(), every(10.0, 400.0)
    fill(history, CLOCK, card(0, "910B3-Ascend-V1"), times, at(1.2e9))
    fill(history, USAGE, card(0, "910B3"), times, at(0.9))
    assert told(history) == {("0", "heuristic"): 0.0}
    fill(history, RATED, card(0, "910B3"), times, at(FULL))
    assert told(history) == {("0", "heuristic"): 1.0}


def test_a_clock_without_utilisation_says_nothing() -> None:
    history = History()
    fill(history, CLOCK, card(0), every(10.0, 400.0), at(1.2e9))
    fill(history, RATED, card(0), every(10.0, 400.0), at(FULL))
    assert told(history) == {}


def test_utilisation_read_long_before_the_clock_does_not_count() -> None:
    history = History()
    fill(history, CLOCK, card(0), every(10.0, 150.0), at(1.2e9))
    fill(history, RATED, card(0), every(10.0, 150.0), at(FULL))
    fill(history, USAGE, card(0), every(10.0, 400.0, NOW - 200.0), at(0.9))
    assert told(history) == {}


@given(
    st.lists(st.tuples(st.floats(5e8, 2e9), st.floats(0.0, 1.0)), min_size=1, max_size=30),
    st.integers(0, 29),
    st.sampled_from([0.001, 0.5, 2.0, 1024.0]),
)
@settings(deadline=None)
def test_the_unit_does_not_matter_and_a_missing_reading_moves_the_share_by_no_more_than_itself(
    pairs: list[tuple[float, float]], gone: int, scale: float
) -> None:
    clock, usage = np.array(pairs).T
    share = slow_share(clock, usage, FULL)
    assert slow_share(clock * scale, usage, FULL * scale) == share
    missing = clock.copy()
    missing[gone % len(pairs)] = np.nan
    without = slow_share(missing, usage, FULL)
    if share is not None and without is not None:
        assert abs(without - share) <= 1.0 / max(int((usage >= 0.5).sum()), 1) + 1e-9
