"""The period of the time to first token, from an engine's growing histogram."""

from __future__ import annotations

import numpy as np
import pytest

from collectors.derived import ttft_period
from collectors.derived.ttft_period import means_in_steps
from collectors.history import History
from collectors.sample import Sample
from tests.collectors.derived.stories import ENGINE, NOW, by_labels, every, one_bucket

TTFT = "trimtab_engine_ttft_seconds"


def samples(history: History) -> list[Sample]:
    return [
        sample
        for found in ttft_period.works(history, NOW)
        for sample in ([found] if isinstance(found, Sample) else found())
    ]


def told(
    extra_seconds: float, period: float, span: float = 900.0, each: float = 1.0, seed: int = 3
) -> dict[str, float]:
    """Figures of an engine with 8 first tokens a reading, slower by `extra_seconds` once a period."""
    history, draw = History(), np.random.default_rng(seed)
    count = total = 0.0
    for time in every(each, span):
        arrived = float(draw.poisson(8.0 * each))
        slow = extra_seconds if time % period < 2.0 else 0.0
        count += arrived
        total += arrived * (0.2 * float(np.exp(0.2 * draw.standard_normal())) + slow)
        history.add([Sample(TTFT, one_bucket(total, count), float(time), ENGINE)])
    found = samples(history)
    assert all(sample.labels == ENGINE for sample in found)
    return {
        sample.name.removeprefix("trimtab_engine_ttft_period_"): sample.value
        for sample in found
        if isinstance(sample.value, float)
    }


def test_a_job_beside_the_engine_every_half_minute_shows() -> None:
    found = told(0.2, 30.0)
    assert found["seconds"] == pytest.approx(30.0, abs=1.0)
    assert found["confidence_ratio"] >= 0.95
    assert found["strength_ratio"] > 0.1


def test_a_job_every_five_minutes_shows_after_some_time() -> None:
    history, draw = History(), np.random.default_rng(4)
    count = total = 0.0
    for time in every(5.0, 7200.0):
        count += 40.0
        total += 40.0 * (0.2 * float(np.exp(0.1 * draw.standard_normal())) + 0.3 * (time % 300.0 < 40.0))
        history.add([Sample(TTFT, one_bucket(total, count), float(time), ENGINE)])
    found = samples(history)
    assert by_labels(found, "trimtab_engine_ttft_period_seconds")[ENGINE] == pytest.approx(300.0, rel=0.05)
    assert by_labels(found, "trimtab_engine_ttft_period_confidence_ratio")[ENGINE] >= 0.95


def test_the_better_of_two_looks_is_less_sure_than_one() -> None:
    assert told(0.3, 30.0)["confidence_ratio"] == pytest.approx(0.995)
    assert told(0.3, 30.0, span=6600.0)["confidence_ratio"] == pytest.approx(0.99)


def test_a_steady_engine_is_seldom_called_periodic() -> None:
    called = [told(0.0, 30.0, seed=seed).get("confidence_ratio", 0.0) >= 0.95 for seed in range(12)]
    assert sum(called) <= 2


def test_readings_rarer_than_the_steps_say_nothing_of_a_period() -> None:
    # Every third step of 20 s would be unknown, and that beat would be found.
    assert told(0.0, 30.0, span=7200.0, each=30.0) == {}


def test_a_few_minutes_say_nothing_yet() -> None:
    assert told(0.2, 30.0, span=60.0) == {}


def test_an_engine_without_requests_has_no_period() -> None:
    history = History()
    for time in every(1.0, 900.0):
        history.add([Sample(TTFT, one_bucket(5.0, 9.0), float(time), ENGINE)])
    assert samples(history) == []
    assert samples(History()) == []


def test_the_mean_of_a_step_is_of_what_was_observed_in_it() -> None:
    times = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
    counts = np.array([10.0, 12.0, 12.0, 13.0, 15.0])
    sums = np.array([5.0, 6.0, 6.0, 9.0, 10.0])
    means = means_in_steps(times, counts, sums, np.array([-1.0, 0.0, 1.0, 2.0, 3.5, 4.0]))
    assert means == pytest.approx([np.nan, 0.5, np.nan, 3.0, 0.5], nan_ok=True)


def test_missing_readings_leave_the_others_as_they_are() -> None:
    times = np.arange(10.0)
    counts, sums = 2.0 * times, 3.0 * times
    kept = times != 4.0
    edges = np.arange(0.0, 10.0, 1.0)
    whole = means_in_steps(times, counts, sums, edges)
    without = means_in_steps(times[kept], counts[kept], sums[kept], edges)
    assert np.isnan(without[3]) and np.delete(without, 3) == pytest.approx(np.delete(whole, 3))
