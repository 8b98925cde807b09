"""From records and gap counts to the figures of a window."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from change.engine import GAP_BASE_SECONDS, GAP_RATIO
from tests.tuner.records import record
from tuner.settings import Limit, Slo
from tuner.window import (
    Interval,
    covariates,
    gap_difference,
    gap_quantile,
    measure,
    offered_wait,
    quantile,
)

WINDOW = Interval(epoch=1, applied=95.0, start=100.0, end=110.0)
TIGHT = Slo((Limit("ttft", 0.99, 0.2), Limit("itl", 0.99, 0.05)))


def bucket(seconds: float) -> int:
    return math.floor(math.log(seconds / GAP_BASE_SECONDS) / math.log(GAP_RATIO))


@given(st.lists(st.floats(0.0002, 10.0), min_size=1, max_size=200), st.sampled_from([0.5, 0.9, 0.99]))
def test_gap_quantiles_are_within_a_bucket_of_the_true_ones(gaps: list[float], q: float) -> None:
    counts: dict[int, int] = {}
    for gap in gaps:
        counts[bucket(gap)] = counts.get(bucket(gap), 0) + 1
    found = gap_quantile(counts, q)
    ordered = sorted(gaps)
    low = ordered[max(0, math.ceil(q * len(gaps)) - 1)]
    assert found is not None
    assert low / (GAP_RATIO * 1.001) <= found <= low * GAP_RATIO * 1.001


def test_a_window_without_gaps_has_no_itl() -> None:
    metrics = measure([record(101)], {}, WINDOW, Slo())
    assert "itl_p50_seconds" not in metrics and metrics["ttft_p50_seconds"] == pytest.approx(0.1)


def test_ttft_counts_in_the_epoch_and_window_of_the_first_token() -> None:
    records = [
        record(101, ttft=0.1),
        record(99.95, ttft=0.3),  # arrived before, first token inside
        record(105, ttft=9.0),  # first token after the end
        record(103, ttft=0.5, epoch=2),  # another config's
    ]
    metrics = measure(records, {}, WINDOW, Slo())
    assert metrics["requests"] == 2
    assert metrics["ttft_mean_seconds"] == pytest.approx(0.2)


def test_e2e_needs_a_request_that_lived_in_one_epoch_only() -> None:
    records = [record(101), record(102, epoch_arrival=0), record(103, epoch_finish=2)]
    metrics = measure(records, {}, WINDOW, Slo())
    assert metrics["e2e_p50_seconds"] == pytest.approx(0.3)


def test_the_slo_share_holds_each_request_to_every_limit() -> None:
    records = [record(101), record(102, ttft=0.3), record(103, gap=0.06), record(104, reason="error")]
    metrics = measure(records, {}, WINDOW, TIGHT)
    assert metrics["slo_share"] == pytest.approx(0.25)
    assert metrics["failed_requests"] == 1
    assert metrics["good_tokens_per_second"] == pytest.approx(1.1)


def test_without_limits_there_is_no_slo_share() -> None:
    assert "slo_share" not in measure([record(101)], {}, WINDOW, Slo())


def test_gap_difference_of_two_readings_is_what_came_between() -> None:
    assert gap_difference({3: 5, 4: 1, 9: 2}, {3: 2, 4: 1}) == {3: 3, 9: 2}


def test_offered_wait_sees_a_burst_and_not_the_same_load_spread_out() -> None:
    spread = [(100.0 + i, 500) for i in range(10)]
    burst = [(100.0 + i / 10, 500) for i in range(10)]
    assert offered_wait(spread, 1000.0, WINDOW) == 0.0
    assert offered_wait(burst, 1000.0, WINDOW) > 1.0


def test_covariates_do_not_depend_on_how_fast_the_requests_were_served() -> None:
    quick = [record(101 + i, ttft=0.1, seq=i) for i in range(5)]
    slow = [record(101 + i, ttft=3.0, gap=0.2, seq=i) for i in range(5)]
    assert covariates(quick, WINDOW, 1000.0) == covariates(slow, WINDOW, 1000.0)


def test_quantile_interpolates_between_order_statistics() -> None:
    assert quantile([1.0, 2.0, 3.0, 4.0], 0.5) == 2.5
    assert quantile([7.0], 0.99) == 7.0
