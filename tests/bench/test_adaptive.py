"""The bench of the adaptive mode: the guide's formula as it is written, equal arrivals, and an honest table."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from bench.adaptive import GUIDE_MIX, LONG_MIX, REASONABLE, Case, Load, Result, table
from bench.drift import Drift, DriftingTraffic
from bench.ways import OWN_BYTES, Adaptive, Formula, OwnMemory, Way, guide_batch
from sim.engine import Engine
from sim.physics import Jitter
from sim.scenario import serve
from tests.sim.laboratory import engine
from tests.tuner.records import record


@pytest.mark.parametrize(
    ("length", "batch"),
    [(1, 8), (546, 8), (547, 7), (1000, 4), (2184, 2), (4369, 1), (4370, 0), (100_000, 0)],
)
def test_the_guides_formula_is_taken_as_it_is_written(length: int, batch: int) -> None:
    assert guide_batch(length) == batch


def test_with_the_models_own_bytes_it_gives_next_to_nothing() -> None:
    assert OWN_BYTES == 48_128
    assert [guide_batch(length, OWN_BYTES) for length in (300, 600, 700)] == [2, 1, 0]


def test_the_average_length_is_nine_tenths_old_and_one_tenth_new() -> None:
    way = Formula(REASONABLE)
    one = engine(400)
    way.tick(0.0, one, [record(0.0, prompt=900, tokens=100)] * 99)
    assert (way.values["max_num_seqs"], way.changes) == (8, 0)
    way.tick(5.0, one, [record(0.0, prompt=900, tokens=100)])
    assert way.values["max_num_seqs"] == guide_batch(1000)
    way.tick(10.0, one, [record(0.0, prompt=9900, tokens=100)] * 100)
    assert way.values["max_num_seqs"] == guide_batch(0.9 * 1000 + 0.1 * 10_000)
    for _ in range(60):
        way.tick(15.0, one, [record(0.0, prompt=9900, tokens=100)] * 100)
    assert way.values["max_num_seqs"] == 1 and way.zeros > 0


def test_over_the_memory_there_is_the_bytes_cancel_out() -> None:
    way, one = OwnMemory(REASONABLE), engine(400)
    way.tick(0.0, one, [record(0.0, prompt=900, tokens=100)] * 100)
    assert way.values["max_num_seqs"] == 400 * 128 // 1000


@pytest.mark.parametrize("load", ["steady", "drift"])
def test_arrivals_are_equal_whatever_serves_them(load: Load) -> None:
    first, second = (Case(load, 3).traffic().chunk() for _ in range(2))
    assert first == second
    assert Case(load, 4).traffic().chunk() != first


def test_within_an_hour_requests_become_long_and_rare_and_short_again() -> None:
    drift = Drift(GUIDE_MIX, LONG_MIX, 6.0, 1.0)
    assert drift.rate(0.0) == pytest.approx(6.0) and drift.rate(1800.0) == pytest.approx(1.0)
    assert drift.rate(3600.0) == pytest.approx(6.0)
    traffic = DriftingTraffic(drift, np.random.default_rng(1))
    rows = [row for _ in range(24) for row in zip(*traffic.chunk(), strict=True)]
    assert all(later[0] >= earlier[0] for earlier, later in pairwise(rows))
    night = [prompt for time, prompt, *_ in rows if 1500 < time < 2100]
    day = [prompt for time, prompt, *_ in rows if time < 300]
    assert len(day) > 3 * len(night) / 2 > 300
    assert np.mean(night) > 2.5 * np.mean(day)


def test_a_run_counts_everybody_who_came() -> None:
    result = Case("steady", 1, seconds=120.0).run("one at a time", Way({**REASONABLE, "max_num_seqs": 1}))
    assert result.late_share > 0.99 and result.goodput == 0.0
    well = Case("steady", 1, 0.5, seconds=120.0).run("adaptive", Adaptive(REASONABLE))
    assert well.late_share < 0.2 and well.tokens_per_second >= well.goodput > 100


def test_the_adaptive_way_never_serves_beyond_its_rails() -> None:
    case = Case("drift", 1, 1.1)
    way = Adaptive({**REASONABLE, "max_num_seqs": 48})
    physics = case.physics
    one = Engine(physics, case.traffic(), Jitter(physics, None), start=0.0)
    serve(one, way.values)
    for tick in range(240):
        one.run(5.0 * (tick + 1))
        way.tick(one.clock, one, [])
        assert 24 <= way.values["max_num_seqs"] <= 96
        assert 128 <= way.values["max_prefill_tokens"] <= 256


def test_the_table_holds_each_way_against_the_best_static_of_its_seed() -> None:
    def row(seed: int, way: str, goodput: float) -> Result:
        return Result("drift", seed, way, {}, 2 * goodput, goodput, 0.25, 10, 3, 0)

    text = table(
        [
            row(1, "best static", 100.0),
            row(1, "ours", 90.0),
            row(2, "best static", 50.0),
            row(2, "ours", 60.0),
        ]
    )
    assert "drift (2 seeds)" in text
    (ours,) = [line for line in text.splitlines() if line.startswith("ours")]
    assert "1.050 (0.900, 1.200)" in ours and "25.0%" in ours
