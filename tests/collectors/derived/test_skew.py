"""A card that differs from the others it works with stands out; cards that merely scatter do not."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.derived import skew
from collectors.derived.skew import skew as skew_of
from collectors.history import History
from collectors.sample import Labels, Sample, labels
from tests.collectors.derived.stories import NOW, by_labels, card, every, fill, fill_values

USAGE = "npu_aicore_usage_ratio"
CLOCK = "npu_aicore_frequency_hertz"
TEMPERATURE = "npu_temperature_celsius"


def of(history: History, quantity: str) -> dict[str, float]:
    """Skew by number of the card."""
    found = by_labels(skew.samples(history, NOW), "npu_skew_ratio")
    return {dict(own)["npu"]: value for own, value in found.items() if dict(own)["of"] == quantity}


def cards(name: str, means: Mapping[int, float], noise: float = 0.0, seed: int = 1) -> History:
    history, draw = History(), np.random.default_rng(seed)
    times = every(10.0, 300.0)
    for npu, mean in means.items():
        fill_values(history, name, card(npu), times, mean + noise * draw.standard_normal(len(times)))
    return history


def test_one_card_that_does_half_of_the_others_stands_out_alone() -> None:
    found = of(cards(USAGE, {0: 0.8, 1: 0.82, 2: 0.4, 3: 0.79}, noise=0.02), "utilisation")
    assert found["2"] == pytest.approx(-0.5, abs=0.12)
    assert all(abs(found[npu]) < 0.05 for npu in ("0", "1", "3"))


def test_one_hot_card_and_one_slow_clock_stand_out() -> None:
    assert of(cards(TEMPERATURE, {0: 55.0, 1: 56.0, 2: 54.0, 3: 80.0}), "temperature")["3"] > 0.3
    assert of(cards(CLOCK, {0: 1.8e9, 1: 1.8e9, 2: 1.2e9, 3: 1.8e9}), "clock")["2"] == pytest.approx(-1 / 3)


@pytest.mark.parametrize("seed", range(5))
def test_cards_that_scatter_alike_do_not_stand_out(seed: int) -> None:
    draw = np.random.default_rng(seed)
    means = {npu: float(draw.normal(60.0, 3.0)) for npu in range(8)}
    found = of(cards(TEMPERATURE, means, noise=1.0, seed=seed), "temperature")
    assert len(found) == 8 and all(abs(value) < 0.05 for value in found.values())


def test_cards_are_not_compared_with_idle_ones_by_utilisation() -> None:
    assert of(cards(USAGE, {0: 0.0, 1: 0.01, 2: 0.0, 3: 0.9}), "utilisation") == {}


def test_one_card_has_nothing_to_be_compared_with() -> None:
    assert of(cards(TEMPERATURE, {0: 90.0}), "temperature") == {}
    assert list(skew.samples(History(), NOW)) == []


def test_cards_of_another_model_are_not_compared() -> None:
    history = cards(TEMPERATURE, {0: 55.0, 1: 55.0})
    for npu in (2, 3):
        fill(history, TEMPERATURE, card(npu, "310P"), every(10.0, 300.0), lambda time: 80.0)
    assert set(of(history, "temperature").values()) == {0.0}


def test_cards_without_a_process_do_not_count_where_processes_are_seen() -> None:
    history = cards(USAGE, {0: 0.8, 1: 0.8, 2: 0.0, 3: 0.0})
    assert of(history, "utilisation")["2"] < 0.0
    for npu in (0, 1):
        own: Labels = labels(**dict(card(npu)), pid=str(100 + npu), process="worker")
        history.add([Sample("npu_process_memory_bytes", 1e10, NOW, own)])
    assert of(history, "utilisation") == {"0": 0.0, "1": 0.0}


def test_cards_said_to_be_of_two_engines_are_not_compared() -> None:
    history = cards(USAGE, {0: 0.9, 1: 0.9, 2: 0.9, 3: 0.9, 4: 0.4, 5: 0.4, 6: 0.0})
    engines = (frozenset("0123"), frozenset("45"))
    found = by_labels(skew.samples(history, NOW, engines), "npu_skew_ratio")
    assert {dict(own)["npu"]: value for own, value in found.items()} == dict.fromkeys("012345", 0.0)
    assert of(history, "utilisation")["4"] < -0.5


def test_two_readings_are_too_few() -> None:
    history = History()
    for npu in range(4):
        fill_values(
            history, TEMPERATURE, card(npu), np.array([NOW - 10.0, NOW]), np.full(2, 50.0 + 10.0 * npu)
        )
    assert of(history, "temperature") == {}


def test_one_missing_reading_changes_nothing() -> None:
    history = cards(USAGE, {0: 0.8, 1: 0.8, 2: 0.8})
    fill(
        history, USAGE, card(3), [time for time in every(10.0, 300.0) if time != NOW - 50.0], lambda time: 0.4
    )
    assert of(history, "utilisation")["3"] == pytest.approx(-0.5)


VALUES = st.lists(st.floats(1.0, 1e3), min_size=2, max_size=12)


@given(VALUES, st.floats(0.01, 100.0))
def test_the_unit_does_not_matter(values: list[float], scale: float) -> None:
    plain = skew_of(values, 0.0)
    assert skew_of([scale * value for value in values], 0.0) == pytest.approx(plain, abs=1e-9)


@given(VALUES)
def test_the_order_of_the_cards_does_not_matter(values: list[float]) -> None:
    order = sorted(range(len(values)), key=lambda place: (values[place], place))
    shuffled = skew_of([values[place] for place in order], 0.0)
    plain = skew_of(values, 0.0)
    assert shuffled == pytest.approx([plain[place] for place in order])


@given(VALUES)
def test_a_card_at_the_median_of_the_others_is_not_skewed(values: list[float]) -> None:
    middle = float(np.median(values))
    assert skew_of([*values, middle], 0.0)[-1] == 0.0
