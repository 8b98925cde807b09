"""The limits that end a trial at once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from scipy.stats import binom

from change.engine import RequestRecord
from tests.tuner.records import record
from tuner.guard import Baseline, Serving, Watch, violations_needed
from tuner.settings import Limit, Slo

CALM = Serving(waiting=0, temperature=60, unknown_intervals=0, alert=None)
TTFT = Slo((Limit("ttft", 0.99, 0.5),))


def mixed(slow: int, quick: int, ttft: float = 2.0) -> list[RequestRecord]:
    return [record(i, ttft=ttft) for i in range(slow)] + [record(i, ttft=0.1) for i in range(quick)]


def check(
    records: list[RequestRecord] | None = None,
    *,
    serving: Serving = CALM,
    slo: Slo = TTFT,
    incumbent: list[RequestRecord] | None = None,
    queue: float = 4,
    errors: float = 0,
    errors_before: float = 0,
    usual_errors: float = 0,
) -> str | None:
    baseline = Baseline(slo)
    for _ in range(100):
        baseline.see_errors(usual_errors)
    if incumbent is not None:
        baseline.add(incumbent)
    watch = Watch(slo, epoch=1)
    watch.see(records or [], errors_before)
    watch.see([], errors)
    return watch.verdict(serving, baseline, queue, max_temperature=85)


def test_a_calm_candidate_stays() -> None:
    assert check() is None


def test_a_failure_that_engine_and_server_both_count_is_one() -> None:
    failed = [replace(record(i), reason="error") for i in range(2)]
    assert check(failed, errors=2) is None
    assert "3 requests" in str(check(failed, errors=3))


def test_errors_that_the_server_counted_before_the_candidate_came_are_not_its_own() -> None:
    assert check(errors_before=50) is None


def test_errors_that_the_incumbent_has_as_often_are_not_the_candidates() -> None:
    assert check(errors=5, usual_errors=2) is None
    assert "an error" in str(check(errors=20, usual_errors=2))


def test_six_of_a_hundred_break_a_one_percent_allowance() -> None:
    assert violations_needed(100, 0.01) == 6
    assert check(mixed(5, 95)) is None
    assert "6 of 100" in str(check(mixed(6, 94)))


@pytest.mark.parametrize("held", [10, 50, 100, 400])
@pytest.mark.parametrize("share", [0.01, 0.1, 0.5])
def test_the_count_needed_is_the_smallest_whose_tail_is_under_a_thousandth(held: int, share: float) -> None:
    needed = violations_needed(held, share)
    assert binom.sf(needed - 1, held, share) < 0.001 <= binom.sf(needed - 2, held, share)


def test_what_the_incumbent_breaks_itself_is_allowed_to_the_candidate() -> None:
    assert check(mixed(20, 80), incumbent=mixed(20, 80)) is None


def test_a_burst_as_bad_as_the_incumbents_worst_is_not_the_candidates_fault() -> None:
    calm_but_for_one_burst = mixed(0, 400) + mixed(20, 0) + mixed(0, 400)
    assert check(mixed(20, 0)) is not None
    assert check(mixed(20, 0), incumbent=calm_but_for_one_burst) is None
    assert check(mixed(30, 0), incumbent=calm_but_for_one_burst) is not None


def test_a_median_limit_allows_half() -> None:
    assert check(mixed(55, 45), slo=Slo((Limit("ttft", 0.5, 0.5),))) is None
    assert check(mixed(75, 25), slo=Slo((Limit("ttft", 0.5, 0.5),))) is not None


def test_itl_is_held_per_request_by_its_mean_gap() -> None:
    slow = [record(i, gap=0.2) for i in range(20)]
    assert "itl_p99_seconds" in str(check(slow, slo=Slo((Limit("itl", 0.99, 0.1),))))


def test_requests_that_another_config_served_do_not_count() -> None:
    assert check([record(i, ttft=9.0, epoch=2) for i in range(50)]) is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"temperature": 86}, "temperature"),
        ({"unknown_intervals": 2}, "unknown"),
        ({"alert": "device fault"}, "alert"),
    ],
)
def test_other_limits_end_a_trial_at_once(change: dict[str, object], words: str) -> None:
    assert words in str(check(serving=replace(CALM, **change)))  # type: ignore[arg-type]


def test_a_storm_of_errors_ends_a_trial() -> None:
    assert check(errors=2) is None
    assert "3 requests with an error" in str(check(errors=3))
    assert "failed" in str(check([record(i, reason="error") for i in range(3)]))


def test_a_share_of_errors_that_the_slo_allows_is_no_storm() -> None:
    allowing = Slo(error_ratio=0.05)
    some = [record(i, reason="error") for i in range(4)] + [record(i) for i in range(96)]
    assert check(some) is not None
    assert check(some, slo=allowing) is None
    many = [record(i, reason="error") for i in range(16)] + [record(i) for i in range(84)]
    assert "failed" in str(check(many, slo=allowing))


def test_unknown_gauges_are_not_judged() -> None:
    assert check(serving=replace(CALM, waiting=None, temperature=None)) is None


def queue_verdicts(*waiting: float | None) -> list[bool]:
    watch, baseline = Watch(TTFT, epoch=1), Baseline(TTFT)
    return [
        watch.verdict(replace(CALM, waiting=one), baseline, 4, max_temperature=85) is not None
        for one in waiting
    ]


def test_a_queue_over_three_times_the_incumbents_that_grows_ends_a_trial_at_the_second_look() -> None:
    assert queue_verdicts(12, 13, 14) == [False, False, True]


def test_a_queue_that_drains_is_what_a_stalled_machine_left() -> None:
    assert queue_verdicts(40, 30, 20, 12) == [False] * 4


def test_a_queue_that_stands_or_drains_too_slowly_ends_a_trial_at_the_fifth_look() -> None:
    assert queue_verdicts(40, 40, 40, 40, 40) == [False] * 4 + [True]
    assert queue_verdicts(40, 39, 38, 37, 36) == [False] * 4 + [True]


def test_looks_at_a_queue_are_counted_in_a_row() -> None:
    assert not any(queue_verdicts(40, 30, 5, 40, 30, 5, 40, None, 41, 40))


def test_three_times_an_empty_queue_is_not_a_limit() -> None:
    assert check(serving=replace(CALM, waiting=5), queue=0) is None
