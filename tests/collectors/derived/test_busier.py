"""A card that has become slow beside the others is found; cards that go on while another engine's fall idle are not."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.derived import all_findings, busier
from collectors.derived.busier import busier as busier_of
from collectors.history import History
from collectors.sample import Sample
from tests.collectors.derived.stories import NOW, by_labels, card, every, fill_values

USAGE = "npu_aicore_usage_ratio"
SLOWER = 0.07
"""What the rule NpuCardSlower asks for."""


def cards(means: Mapping[int, tuple[float, float]], noise: float = 0.02, changed: float = 600.0) -> History:
    """Two hours of readings of each card: its use before, and since `changed` seconds."""
    history, draw = History(), np.random.default_rng(1)
    times = every(10.0, 7200.0)
    for npu, (before, since) in means.items():
        values = np.where(times < NOW - changed, before, since) + noise * draw.standard_normal(len(times))
        fill_values(history, USAGE, card(npu), times, np.clip(values, 0.0, 1.0))
    return history


def found(history: History, *engines: str) -> dict[str, float]:
    """By number of the card; `engines` are the cards of each."""
    samples = busier.samples(history, NOW, tuple(map(frozenset, engines)))
    return {dict(own)["npu"]: value for own, value in by_labels(samples, "npu_busier_ratio").items()}


@pytest.mark.parametrize("before", [0.6, 0.95])
def test_a_card_that_has_become_slow_is_found_alone_at_full_load_too(before: float) -> None:
    slow = {npu: (before, before if npu == 2 else before / 1.15) for npu in range(8)}
    more = found(cards(slow))
    assert [npu for npu, value in more.items() if value > SLOWER] == ["2"]
    assert found(cards({0: (0.6, 0.7), 1: (0.6, 0.6)}))["0"] > SLOWER, "of two cards too"


@pytest.mark.parametrize("engines", [(), ("0123", "4567")])
def test_cards_that_go_on_while_another_engines_fall_idle_are_not_slow(engines: tuple[str, ...]) -> None:
    beside = {npu: (0.8, 0.8 if npu < 4 else 0.05) for npu in range(8)}
    more = found(cards(beside), *engines)
    assert {"0", "1", "2", "3"} <= set(more)
    assert all(value < SLOWER for value in more.values())


def test_ranks_between_which_the_traffic_shifts_are_not_slow() -> None:
    shifted = {npu: (0.6, 0.8 if npu < 4 else 0.4) for npu in range(8)}
    assert all(value < SLOWER for value in found(cards(shifted)).values())


def test_one_card_of_another_engine_is_told_apart_where_the_cards_are_said() -> None:
    beside = cards({0: (0.8, 0.8), 1: (0.8, 0.2), 2: (0.8, 0.2)})
    assert found(beside)["0"] > SLOWER
    assert "0" not in found(beside, "0", "12")


def test_a_card_that_always_was_the_busiest_is_not_slow() -> None:
    assert all(value < SLOWER for value in found(cards({0: (0.7, 0.7), 1: (0.55, 0.55)})).values())


def test_cards_that_rise_together_are_not_slow() -> None:
    risen = {npu: (0.4 + 0.01 * npu, 0.75 + 0.01 * npu) for npu in range(4)}
    assert all(value < SLOWER for value in found(cards(risen)).values())


def test_hardly_any_load_and_a_card_alone_say_nothing() -> None:
    assert found(cards({0: (0.1, 0.2), 1: (0.1, 0.1)})) == {}
    assert found(cards({0: (0.4, 0.75)})) == {}
    assert list(busier.samples(History(), NOW)) == []


def test_the_collector_derives_it_within_the_cards_that_are_said() -> None:
    (finding,) = (one for one in all_findings((frozenset("0"), frozenset("12"))) if one.name == "busier")
    samples = list(finding.derive(cards({0: (0.8, 0.8), 1: (0.8, 0.6), 2: (0.8, 0.6)}), NOW))
    assert {one.labels for one in samples if isinstance(one, Sample)} == {card(1), card(2)}


@given(st.lists(st.tuples(st.floats(0.3, 1.0), st.floats(0.3, 1.0)), min_size=2, max_size=16))
def test_one_card_at_most_stands_out(pairs: list[tuple[float, float]]) -> None:
    more = busier_of([new for new, _ in pairs], [old for _, old in pairs])
    assert sum(value is not None and value > 0.0 for value in more) <= 1
