"""A card under one half lags only while most of the others work."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.derived import lagging
from collectors.derived.lagging import lagging as lagging_of
from collectors.history import History
from tests.collectors.derived.stories import NOW, by_labels, card, every, fill

USAGE = "npu_aicore_usage_ratio"
Of = Callable[[float], float]


def shares(*usages: Of, seconds: float = 10.0, span: float = 400.0) -> dict[str, float]:
    """Share by card, whose utilisations are functions of time."""
    history = History()
    for npu, usage in enumerate(usages):
        fill(history, USAGE, card(npu), every(seconds, span), usage)
    found = by_labels(lagging.samples(history, NOW), "npu_lagging_ratio")
    return {dict(own)["npu"]: value for own, value in found.items()}


def at(value: float) -> Of:
    return lambda time: value


def test_one_card_under_half_while_the_others_work() -> None:
    assert shares(at(0.9), at(0.85), at(0.3), at(0.88)) == {"0": 0.0, "1": 0.0, "2": 1.0, "3": 0.0}


def test_a_card_that_lags_part_of_the_time() -> None:
    found = shares(at(0.9), at(0.9), lambda time: 0.2 if time > NOW - 100.0 else 0.9)
    assert found["2"] == pytest.approx(1 / 3, abs=0.04)


def test_all_cards_idle_together_is_no_lag() -> None:
    assert set(shares(at(0.1), at(0.0), at(0.2), at(0.1)).values()) == {0.0}


def test_a_batch_that_comes_and_goes_on_all_cards_is_no_lag() -> None:
    def beat(time: float) -> float:
        return 0.9 if time % 60.0 < 30.0 else 0.1

    assert set(shares(beat, beat, beat, beat).values()) == {0.0}


def test_cards_around_one_half_are_not_told_apart() -> None:
    assert set(shares(at(0.52), at(0.48), at(0.55), at(0.51)).values()) == {0.0}


def test_one_busy_card_does_not_make_the_others_lag() -> None:
    assert set(shares(at(0.9), at(0.1), at(0.1), at(0.1)).values()) == {0.0}


def test_a_card_that_was_read_rarely_is_unknown() -> None:
    history = History()
    for npu in range(3):
        fill(history, USAGE, card(npu), every(10.0, 400.0), at(0.9))
    fill(history, USAGE, card(3), (NOW - 200.0, NOW), at(0.1))
    found = by_labels(lagging.samples(history, NOW), "npu_lagging_ratio")
    assert card(3) not in found and len(found) == 3


def test_readings_a_little_apart_in_time_are_compared() -> None:
    history = History()
    for npu, (offset, usage) in enumerate(((0.0, 0.9), (3.0, 0.9), (7.0, 0.9), (9.0, 0.2))):
        fill(history, USAGE, card(npu), every(10.0, 400.0) - offset, at(usage))
    found = by_labels(lagging.samples(history, NOW), "npu_lagging_ratio")
    assert found[card(3)] == 1.0


@given(
    st.integers(2, 6).flatmap(
        lambda cards: st.lists(
            st.lists(st.one_of(st.just(np.nan), st.floats(0.0, 1.0)), min_size=cards, max_size=cards),
            min_size=1,
            max_size=20,
        )
    )
)
@settings(deadline=None)
def test_shares_are_shares_and_the_order_of_moments_does_not_matter(moments: list[list[float]]) -> None:
    usage = np.array(moments).T
    found = lagging_of(usage)
    assert found == lagging_of(usage[:, ::-1])
    assert all(share is None or 0.0 <= share <= 1.0 for share in found)
    assert lagging_of(np.concatenate([usage, usage], axis=1)) == pytest.approx(found)
