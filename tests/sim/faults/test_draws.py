"""Each fault of each seed is one draw: inside its documented range, and another for each seed."""

from __future__ import annotations

import pytest

from sim.faults import FAULTS, FaultName, draw
from sim.faults.draws import CARDS, ONSET_SECONDS, RANGES, SLOW, SLOW_ONSET_SECONDS, VARIANTS


@pytest.mark.parametrize("name", FAULTS)
def test_every_draw_is_inside_its_range_and_the_same_each_time(name: FaultName) -> None:
    onset = SLOW_ONSET_SECONDS if name in SLOW else ONSET_SECONDS
    for seed in range(101, 141):
        fault = draw(name, seed)
        assert fault == draw(name, seed)
        assert onset.low <= fault.onset_seconds <= onset.high
        assert 0 <= fault.card < CARDS
        assert fault.magnitude.keys() == RANGES[name].keys()
        for key, spread in RANGES[name].items():
            assert spread.low <= fault.magnitude[key] <= spread.high


@pytest.mark.parametrize("name", FAULTS)
def test_seeds_differ_in_onset_and_all_variants_come(name: FaultName) -> None:
    drawn = [draw(name, seed) for seed in range(101, 141)]
    assert len({fault.onset_seconds for fault in drawn}) == len(drawn)
    assert {fault.variant for fault in drawn} == set(VARIANTS.get(name, ("",)))


@pytest.mark.parametrize("name", [name for name in FAULTS if RANGES[name]])
def test_small_magnitudes_come_too(name: FaultName) -> None:
    for key, spread in RANGES[name].items():
        least = min(draw(name, seed).magnitude[key] for seed in range(101, 141))
        assert least < spread.low + 0.2 * (spread.high - spread.low)
