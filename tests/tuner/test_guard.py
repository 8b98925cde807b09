"""The limits that end a trial at once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from scipy.stats import binom

from tests.tuner.records import record
from tuner.guard import Ranges, Serving, verdict, violations_needed
from tuner.settings import Limit, Slo

CALM = Serving((), {}, running=10, waiting=0, temperature=60, errors=0, unknown_intervals=0, alert=None)
USUAL = Ranges({}, queue=4)
TTFT = Slo((Limit("ttft", 0.99, 0.5),))


def check(serving: Serving, slo: Slo = TTFT, ranges: Ranges = USUAL) -> str | None:
    return verdict(serving, slo, ranges, max_temperature=85)


def served(slow: int, quick: int) -> Serving:
    records = [record(i, ttft=2.0) for i in range(slow)] + [record(i, ttft=0.1) for i in range(quick)]
    return replace(CALM, records=tuple(records))


def test_a_calm_candidate_stays() -> None:
    assert check(CALM) is None


def test_six_of_a_hundred_break_a_one_percent_allowance() -> None:
    assert violations_needed(100, 0.01) == 6
    assert check(served(5, 95)) is None
    assert "6 of 100" in str(check(served(6, 94)))


@pytest.mark.parametrize("held", [10, 50, 100, 400])
@pytest.mark.parametrize("share", [0.01, 0.1, 0.5])
def test_the_count_needed_is_the_smallest_whose_tail_is_under_a_thousandth(held: int, share: float) -> None:
    needed = violations_needed(held, share)
    assert binom.sf(needed - 1, held, share) < 0.001 <= binom.sf(needed - 2, held, share)


def test_what_the_incumbent_breaks_itself_is_allowed_to_the_candidate() -> None:
    assert check(served(20, 80), ranges=Ranges({"ttft_p99_seconds": 0.2}, queue=4)) is None


def test_a_median_limit_allows_half() -> None:
    assert check(served(55, 45), slo=Slo((Limit("ttft", 0.5, 0.5),))) is None
    assert check(served(75, 25), slo=Slo((Limit("ttft", 0.5, 0.5),))) is not None


def test_token_gaps_of_one_step_count_once() -> None:
    # 400 gaps of 10 running requests are 40 steps, and 2 slow ones of 40 prove nothing at an allowance of 1%.
    slow = replace(CALM, gaps={100: 380, 160: 20}, running=10)
    assert check(slow, slo=Slo((Limit("itl", 0.99, 0.1),))) is None
    assert check(replace(slow, gaps={100: 300, 160: 100}), slo=Slo((Limit("itl", 0.99, 0.1),))) is not None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"waiting": 13}, "waiting"),
        ({"temperature": 86}, "temperature"),
        ({"errors": 3}, "failed"),
        ({"unknown_intervals": 2}, "unknown"),
        ({"alert": "device fault"}, "alert"),
    ],
)
def test_other_limits_end_a_trial_at_once(change: dict[str, object], words: str) -> None:
    assert words in str(check(replace(CALM, **change)))  # type: ignore[arg-type]


def test_unknown_gauges_are_not_judged() -> None:
    assert check(replace(CALM, running=None, waiting=None, temperature=None)) is None


def test_three_times_an_empty_queue_is_not_a_limit() -> None:
    assert check(replace(CALM, waiting=5), ranges=Ranges({}, queue=0)) is None
