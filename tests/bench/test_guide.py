"""The short form of the guide's story: whole campaigns over all lanes in virtual time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench import cold_truth, search
from bench.acceptance import MOST_OF_THE_GUIDE
from bench.truth import Truth
from sim.scenario import LAUNCH
from tuner.objective import scale
from tuner.settings import Objective, Slo


def test_without_a_draw_the_guides_own_values_are_the_best_and_gain_what_it_tells() -> None:
    slo = Slo()
    plain = Truth("guide-235b-plain", 1, slo, scale(Objective("throughput"), slo, saturated=True), 0.1)
    best = cold_truth.best(plain, LAUNCH)
    assert best.settings["block_size"] == 64 and best.settings["pipeline_parallel_size"] == 4
    assert best.values["max_prefill_tokens"] == 512
    assert cold_truth.guide(plain, LAUNCH) == pytest.approx(0.785, abs=0.01)


@pytest.mark.campaign
def test_most_of_the_best_gain_over_all_lanes_is_found_with_four_restarts(say: Callable[[str], None]) -> None:
    found = search.outcomes([101, 103], scenario="guide-235b")
    say(f"{search.table(found)}\n{search.summary(found)}")
    assert all(o.share >= MOST_OF_THE_GUIDE for o in found)
    assert not any(o.failed for o in found) and all(o.restarts <= 4 for o in found)
