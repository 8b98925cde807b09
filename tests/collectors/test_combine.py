"""Quantiles are Prometheus's; several series make one figure as the table says."""

from __future__ import annotations

import math

import pytest

from collectors.combine import combine_distributions, combine_values, quantile
from collectors.sample import Distribution

INF = math.inf
EVEN = Distribution((1.0, 2.0, 4.0, INF), (10.0, 20.0, 40.0, 40.0), 80.0, 40.0)


@pytest.mark.parametrize(
    ("q", "value"), [(0.0, 0.0), (0.125, 0.5), (0.25, 1.0), (0.5, 2.0), (0.75, 3.0), (1.0, 4.0)]
)
def test_a_quantile_is_interpolated_within_its_bucket(q: float, value: float) -> None:
    assert quantile(EVEN, q) == pytest.approx(value)


def test_a_quantile_in_the_open_bucket_is_the_highest_bound() -> None:
    assert quantile(Distribution((1.0, 2.0, INF), (1.0, 2.0, 100.0), 0.0, 100.0), 0.9) == 2.0


def test_a_first_bucket_at_or_below_zero_gives_its_bound() -> None:
    assert quantile(Distribution((0.0, 1.0, INF), (5.0, 5.0, 5.0), 0.0, 5.0), 0.5) == 0.0


def test_empty_buckets_are_passed_over() -> None:
    assert quantile(Distribution((1.0, 2.0, 3.0, INF), (0.0, 0.0, 4.0, 4.0), 10.0, 4.0), 0.5) == 2.5


def test_a_histogram_read_between_two_increments_is_no_trouble() -> None:
    assert quantile(Distribution((1.0, 2.0, INF), (5.0, 4.0, 6.0), 0.0, 6.0), 0.9) == 2.0


def test_no_observations_no_quantile() -> None:
    assert quantile(Distribution((1.0, INF), (0.0, 0.0), 0.0, 0.0), 0.5) is None
    assert quantile(Distribution((INF,), (3.0,), 9.0, 3.0), 0.5) is None
    assert quantile(Distribution((), (), 9.0, 3.0), 0.5) is None


@pytest.mark.parametrize("q", [-0.1, 1.1, math.nan])
def test_a_quantile_out_of_range_is_refused(q: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        quantile(EVEN, q)


def test_histograms_add_up() -> None:
    assert combine_distributions([EVEN, EVEN]) == Distribution(
        EVEN.bounds, (20.0, 40.0, 80.0, 80.0), 160.0, 80.0
    )


def test_histograms_of_other_bounds_add_up_on_the_common_ones() -> None:
    other = Distribution((2.0, 3.0, INF), (1.0, 2.0, 3.0), 7.0, 3.0)
    assert combine_distributions([EVEN, other]) == Distribution((2.0, INF), (21.0, 43.0), 87.0, 43.0)


@pytest.mark.parametrize(("how", "value"), [("sum", 6.0), ("mean", 2.0), ("max", 3.0), ("min", 1.0)])
def test_values_combine(how: str, value: float) -> None:
    assert combine_values([1.0, 3.0, 2.0], how) == value  # type: ignore[arg-type]
