"""History answers for windows, across resets, and forgets what is gone."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.history import History
from collectors.sample import Distribution, Labels, Sample, labels

INF = math.inf
TOKENS = "trimtab_engine_generation_tokens_total"
RUNNING = "trimtab_engine_requests_running"
TTFT = "trimtab_engine_ttft_seconds"
POWER = "npu_power_watts"
TEMPERATURE = "npu_temperature_celsius"


def counter(time: float, value: float, own: Labels = ()) -> Sample:
    return Sample(TOKENS, value, time, own)


def ttft(
    time: float, *counts: float, total: float = 0.0, bounds: tuple[float, ...] = (0.1, 1.0, INF)
) -> Sample:
    return Sample(TTFT, Distribution(bounds, counts, total, counts[-1]), time)


def filled(*samples: Sample) -> History:
    history = History()
    for sample in samples:
        history.add([sample])
    return history


def test_a_rate_is_growth_per_second_within_the_window() -> None:
    history = filled(*(counter(time, time * 3.0) for time in range(100)))
    assert history.rate(TOKENS, 99.0, 10.0) == pytest.approx(3.0)
    assert history.rate(TOKENS, 50.0, 10.0) == pytest.approx(3.0)


def test_a_rate_needs_two_readings_in_the_window() -> None:
    history = filled(counter(0.0, 1.0), counter(10.0, 5.0))
    assert history.rate(TOKENS, 10.0, 5.0) is None
    assert history.rate(TOKENS, 100.0, 5.0) is None
    assert history.rate("trimtab_engine_prompt_tokens_total", 10.0, 5.0) is None


def test_a_counter_reset_counts_from_zero_again() -> None:
    history = filled(counter(0.0, 100.0), counter(1.0, 110.0), counter(2.0, 4.0), counter(3.0, 10.0))
    assert history.rate(TOKENS, 3.0, 10.0) == pytest.approx((10.0 + 4.0 + 6.0) / 3.0)
    latest = history.latest(TOKENS)
    assert latest is not None and latest.value == 10.0, "the reading itself is not changed"


@given(st.lists(st.lists(st.integers(0, 1000), min_size=1, max_size=5), min_size=1, max_size=6))
@settings(max_examples=100, deadline=None)
def test_growth_over_any_restarts_is_the_sum_of_what_was_counted(lives: list[list[int]]) -> None:
    history, time, value, true_growth, first = History(), 0.0, 0.0, 0.0, True
    for life in lives:
        total = 0.0
        for number, step in enumerate(life):
            total += step
            seen_as_reset = number == 0 and not first and total < value
            if not first:
                true_growth += total if seen_as_reset else total - value
            value, first = total, False
            history.add([counter(time, total)])
            time += 1.0
    if time >= 2.0:
        assert history.rate(TOKENS, time - 1.0, time) == pytest.approx(true_growth / (time - 1.0))


def test_a_histogram_reset_is_seen_in_any_bucket() -> None:
    history = filled(ttft(0.0, 5.0, 9.0, 10.0, total=4.0), ttft(1.0, 1.0, 11.0, 12.0, total=7.0))
    found = history.distribution(TTFT, 1.0, 10.0)
    assert found == Distribution((0.1, 1.0, INF), (1.0, 11.0, 12.0), 7.0, 12.0)


def test_quantile_and_mean_are_of_the_window_alone() -> None:
    history = filled(
        ttft(0.0, 1000.0, 1000.0, 1000.0, total=50.0), ttft(10.0, 1000.0, 1010.0, 1010.0, total=55.0)
    )
    assert history.quantile(TTFT, 0.5, 10.0, 20.0) == pytest.approx(0.55)
    assert history.mean(TTFT, 10.0, 20.0) == pytest.approx(0.5)
    assert history.rate(TTFT, 10.0, 20.0) == pytest.approx(1.0)


def test_no_observation_in_the_window_is_no_quantile() -> None:
    history = filled(ttft(0.0, 1.0, 2.0, 3.0), ttft(10.0, 1.0, 2.0, 3.0))
    assert history.quantile(TTFT, 0.5, 10.0, 20.0) is None
    assert history.mean(TTFT, 10.0, 20.0) is None
    assert history.rate(TTFT, 10.0, 20.0) == 0.0


def test_other_bounds_start_a_histogram_afresh() -> None:
    history = filled(ttft(0.0, 1.0, 2.0, 3.0), ttft(1.0, 5.0, 6.0, bounds=(0.5, INF)))
    assert history.quantile(TTFT, 0.5, 1.0, 10.0) is None
    history.add([ttft(2.0, 9.0, 10.0, bounds=(0.5, INF))])
    assert history.quantile(TTFT, 0.5, 2.0, 10.0) == pytest.approx(0.25)


def test_series_are_combined_as_the_table_says() -> None:
    history = History()
    for npu, power, heat in (("0", 100.0, 50.0), ("1", 150.0, 70.0)):
        own = labels(npu=npu, chip="0")
        history.add([Sample(POWER, power, 1.0, own), Sample(TEMPERATURE, heat, 2.0 + int(npu), own)])
    assert history.latest(POWER) == Sample(POWER, 250.0, 1.0, labels(chip="0"))
    assert history.latest(TEMPERATURE) == Sample(TEMPERATURE, 70.0, 2.0, labels(chip="0"))
    assert history.latest(TEMPERATURE, labels(npu="0")) == Sample(
        TEMPERATURE, 50.0, 2.0, labels(npu="0", chip="0")
    )
    assert history.latest(TEMPERATURE, labels(npu="9")) is None
    assert history.range(POWER, 0.0, 5.0) == [(1.0, 250.0)]


def test_rates_and_histograms_of_several_engines_add_up() -> None:
    history = History()
    for time in (0.0, 1.0):
        for engine, pace in (("0", 2.0), ("1", 5.0)):
            own = labels(engine=engine)
            shape = Distribution((1.0, INF), (time * pace, time * pace), time, time * pace)
            history.add([counter(time, time * pace, own), Sample(TTFT, shape, time, own)])
    assert history.rate(TOKENS, 1.0, 5.0) == pytest.approx(7.0)
    assert history.rate(TOKENS, 1.0, 5.0, labels(engine="1")) == pytest.approx(5.0)
    found = history.distribution(TTFT, 1.0, 5.0)
    assert found is not None and found.count == pytest.approx(7.0)


def test_mean_and_range_of_a_gauge() -> None:
    history = filled(*(Sample(RUNNING, float(time), float(time)) for time in range(11)))
    assert history.mean(RUNNING, 10.0, 4.0) == pytest.approx(8.0)
    assert history.range(RUNNING, 8.0, 9.0) == [(8.0, 8.0), (9.0, 9.0)]
    assert history.mean(RUNNING, 100.0, 4.0) is None
    assert history.range("npu_power_watts", 0.0, 9.0) == []


def test_a_column_is_one_series_alone_as_arrays() -> None:
    history = History()
    first, second = labels(npu="0", chip="0"), labels(npu="1", chip="0")
    for time in range(5):
        history.add([Sample(POWER, 10.0 + time, time, first), Sample(POWER, 90.0, time, second)])
    times, values = history.column(POWER, first, 1.0, 3.0)
    assert (list(times), list(values)) == ([1.0, 2.0, 3.0], [11.0, 12.0, 13.0])
    assert [list(part) for part in history.column(POWER, labels(npu="0"), 0.0, 9.0)] == [[], []]
    assert [list(part) for part in history.column(POWER, first, 7.0, 9.0)] == [[], []]


def test_the_columns_of_a_histogram_are_its_count_and_its_sum_over_resets() -> None:
    history = filled(
        ttft(0.0, 1.0, 2.0, 3.0, total=5.0),
        ttft(1.0, 2.0, 4.0, 6.0, total=9.0),
        ttft(2.0, 0.0, 1.0, 1.0, total=0.5),
    )
    assert list(history.column(TTFT, (), 0.0, 9.0)[1]) == [3.0, 6.0, 7.0]
    assert list(history.column(TTFT, (), 0.0, 9.0, "sum")[1]) == [5.0, 9.0, 9.5]
    with pytest.raises(ValueError, match="is a gauge: it has no sum"):
        history.column(POWER, (), 0.0, 9.0, "sum")
    with pytest.raises(ValueError, match="no metric 'zzz'"):
        history.column("zzz", (), 0.0, 9.0)


def test_a_column_of_hours_comes_from_a_coarser_tier() -> None:
    history = History()
    for time in range(0, 6 * 3600, 5):
        history.add([counter(float(time), time * 2.0)])
    times, values = history.column(TOKENS, (), 3600.0, 6 * 3600.0)
    assert len(times) == 5 * 60 and times[0] >= 3600.0
    assert all(value == time * 2.0 for time, value in zip(times, values, strict=True))


def test_a_window_of_hours_is_answered_from_the_coarser_tiers() -> None:
    history = History()
    for time in range(0, 6 * 3600, 5):
        history.add([counter(float(time), time * 2.0), Sample(RUNNING, 4.0, float(time))])
    now = 6 * 3600.0 - 5.0
    assert history.rate(TOKENS, now, 5 * 3600.0) == pytest.approx(2.0)
    assert history.mean(RUNNING, now, 5 * 3600.0) == pytest.approx(4.0)
    assert history.held_points() < 3 * 2000


def test_a_series_its_source_gives_no_more_is_gone_at_once() -> None:
    history = History()
    first, second = labels(npu="0", chip="0"), labels(npu="1", chip="0")
    history.add([Sample(POWER, 1.0, 1.0, first), Sample(POWER, 2.0, 1.0, second)], source="npu_smi")
    history.add([Sample(POWER, 3.0, 2.0, first)], source="npu_smi")
    assert history.series(POWER) == [first]
    assert history.last_samples() == [Sample(POWER, 3.0, 2.0, first)]
    assert history.range(POWER, 0.0, 5.0, second) == [(1.0, 2.0)], "its past is still there to look at"
    history.add([Sample(POWER, 4.0, 3.0, second)], source="npu_smi")
    assert history.series(POWER) == [second]


def test_a_source_that_failed_has_no_live_series_and_others_stay() -> None:
    history = History()
    history.add([Sample(POWER, 1.0, 1.0)], source="npu_smi")
    history.add([Sample(RUNNING, 1.0, 1.0)], source="vllm")
    history.end("npu_smi")
    history.end("never read")
    assert [sample.name for sample in history.last_samples()] == [RUNNING]
    assert history.latest(POWER) is None
    assert history.source_times() == {"npu_smi": 1.0, "vllm": 1.0}


def test_a_series_that_is_not_renewed_goes_stale() -> None:
    history = History(stale_seconds=60.0)
    history.add([Sample(POWER, 1.0, 0.0), Sample(RUNNING, 1.0, 0.0)])
    history.add([Sample(RUNNING, 2.0, 61.0)])
    assert [sample.name for sample in history.last_samples()] == [RUNNING]
    assert history.last_samples(now=200.0) == []
    assert history.latest(POWER) is None


def test_what_is_not_a_number_is_no_reading() -> None:
    history = filled(Sample(POWER, 5.0, 0.0), Sample(POWER, math.nan, 1.0))
    assert history.latest(POWER) == Sample(POWER, 5.0, 0.0)


def test_the_same_reading_again_changes_nothing() -> None:
    history = filled(counter(1.0, 5.0), counter(1.0, 9.0), counter(0.5, 7.0), counter(2.0, 6.0))
    assert history.range(TOKENS, 0.0, 9.0) == [(1.0, 5.0), (2.0, 6.0)]


def test_a_clock_that_was_set_back_starts_the_series_afresh() -> None:
    history = filled(counter(1000.0, 5.0), counter(100.0, 6.0), counter(101.0, 8.0))
    assert history.rate(TOKENS, 101.0, 50.0) == pytest.approx(2.0)
    assert history.latest(TOKENS) == counter(101.0, 8.0)


def test_an_old_reading_given_again_does_not_wipe_what_a_faster_source_read_since() -> None:
    history = History()
    for at in range(0, 120, 5):
        history.add([Sample(POWER, 90.0, float(at))], "npu_smi_watch")
    history.add([Sample(POWER, 80.0, 60.0)], "npu_smi_details")
    history.add([Sample(POWER, 80.0, 60.0)], "npu_smi_details")
    assert history.latest(POWER) == Sample(POWER, 90.0, 115.0)
    assert len(history.range(POWER, 0.0, 200.0)) == 24


def test_a_source_whose_own_clock_was_set_back_starts_the_series_afresh() -> None:
    history = History()
    for at in (1000.0, 1005.0, 100.0, 105.0):
        history.add([Sample(POWER, at, at)], "npu_smi_watch")
    assert history.range(POWER, 0.0, 2000.0) == [(100.0, 100.0), (105.0, 105.0)]


def test_a_source_that_drops_its_newest_reading_does_not_wipe_what_others_read() -> None:
    history = History()
    history.add([Sample(POWER, 90.0, 500.0)], "npu_smi_watch")
    other = labels(npu="1")
    history.add([Sample(POWER, 80.0, 60.0), Sample(POWER, 6.0, 100.0, other)], "npu_smi_details")
    history.add([Sample(POWER, 80.0, 60.0)], "npu_smi_details")
    assert history.latest(POWER, ()) == Sample(POWER, 90.0, 500.0)


def test_a_source_that_comes_back_with_its_clock_set_back_starts_afresh() -> None:
    history = History()
    history.add([Sample(POWER, 90.0, 500.0)], "npu_smi_watch")
    history.end("npu_smi_watch")
    history.add([Sample(POWER, 80.0, 60.0)], "npu_smi_watch")
    assert history.latest(POWER) == Sample(POWER, 80.0, 60.0)


def test_a_reading_given_again_with_its_own_time_stays_live() -> None:
    history = History(stale_seconds=60.0)
    old = Sample(POWER, 5.0, 0.0)
    for at in (0.0, 50.0, 100.0):
        history.add([old, Sample(POWER, 6.0, at, labels(npu="1"))], "npu_smi_details")
    assert old in history.last_samples(110.0)
    history.add([Sample(POWER, 6.0, 150.0, labels(npu="1"))], "npu_smi_details")
    assert old not in history.last_samples(150.0), "no source gives it any more"


def test_a_name_that_is_not_in_the_table_is_refused_with_the_nearest() -> None:
    with pytest.raises(ValueError, match="did you mean 'npu_power_watts'"):
        History().add([Sample("npu_power_watt", 1.0, 0.0)])
    with pytest.raises(ValueError, match="no metric 'zzz'"):
        History().latest("zzz")


def test_a_value_of_the_wrong_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="is a histogram, got float"):
        History().add([Sample(TTFT, 1.0, 0.0)])
    with pytest.raises(ValueError, match="is a gauge, got Distribution"):
        History().add([Sample(POWER, Distribution((INF,), (1.0,), 1.0, 1.0), 0.0)])


def test_a_question_of_the_wrong_kind_is_refused() -> None:
    history = History()
    with pytest.raises(ValueError, match="gauge: it has no rate"):
        history.rate(POWER, 0.0, 1.0)
    with pytest.raises(ValueError, match="not a histogram"):
        history.quantile(POWER, 0.5, 0.0, 1.0)
    with pytest.raises(ValueError, match="ask for its rate"):
        history.mean(TOKENS, 0.0, 1.0)
    with pytest.raises(ValueError, match="at least 1"):
        History(max_series=0)


def test_series_of_another_server_are_seen_only_by_who_asks_for_it() -> None:
    history = History()
    own, other = labels(engine="0"), labels(engine="0", server="b")
    for second, (mine, theirs) in enumerate([(1.0, 40.0), (3.0, 50.0)]):
        history.add(
            [
                Sample(RUNNING, mine, second, own),
                Sample(RUNNING, theirs, second, other),
                Sample("trimtab_engine_generation_tokens_total", mine, second, own),
                Sample("trimtab_engine_generation_tokens_total", theirs, second, other),
            ]
        )
    assert history.series(RUNNING) == [own]
    assert history.series(RUNNING, labels(server="b")) == [other]
    for asked, value in (
        (None, 3.0),
        (labels(engine="0"), 3.0),
        ((), 3.0),
        (labels(server="b"), 50.0),
        (other, 50.0),
    ):
        found = history.latest(RUNNING, asked)
        assert found is not None and found.value == value
    assert history.rate("trimtab_engine_generation_tokens_total", 1.0, 5.0) == 2.0
    assert history.rate("trimtab_engine_generation_tokens_total", 1.0, 5.0, labels(server="b")) == 10.0
    assert history.range(RUNNING, 0.0, 1.0) == [(0.0, 1.0), (1.0, 3.0)]
    assert len(history.last_samples()) == 4, "the page of metrics shows all engines"


def test_a_series_ends_when_no_source_gives_it() -> None:
    history = History()
    own = labels(npu="0", chip="0")
    history.add([Sample(POWER, 1.0, 1.0, own)], source="npu_smi")
    history.add([Sample(POWER, 2.0, 2.0, own)], source="npu_smi_watch")
    history.add([], source="npu_smi")
    found = history.latest(POWER)
    assert found is not None and found.value == 2.0
    history.add([Sample(POWER, 3.0, 3.0, own)], source="npu_smi")
    for _ in range(3):
        history.end("npu_smi_watch")
        assert history.latest(POWER) is not None, "the other source still gives it"
    history.end("npu_smi")
    assert history.latest(POWER) is None
    history.add([Sample(POWER, 4.0, 4.0, own)], source="npu_smi")
    history.end("npu_smi_watch")
    assert history.latest(POWER) is not None, "a source that fails on does not end again what another gives"


def test_every_series_are_those_of_watched_engines_too() -> None:
    history, name = History(), "trimtab_engine_requests_running"
    tuned, watched = labels(engine="0", model="m"), labels(engine="0", model="m", server="b")
    history.add([Sample(name, 1.0, 10.0, tuned)], "vllm")
    history.add([Sample(name, 2.0, 10.0, watched)], "engine:b")
    assert history.every_series(name) == [tuned, watched]
    assert history.series(name) == [tuned]
    history.end("engine:b")
    assert history.every_series(name) == [tuned]


def test_what_a_source_gives_again_is_live_and_what_it_gives_no_more_is_not() -> None:
    history = History()
    first, second, third = (Sample(POWER, 1.0, 10.0, labels(npu=str(npu))) for npu in range(3))
    history.add([first, second, third], "npu_smi")
    history.add([first, second, third], "npu_smi")
    assert len(history.series(POWER)) == 3
    history.add([first, first, third], "npu_smi")
    assert history.series(POWER) == [first.labels, third.labels], "one given twice hides none that is missing"
    history.add([third, second, first], "npu_smi")
    assert len(history.series(POWER)) == 3, "in any order"


def test_a_source_that_was_away_gives_and_ends_its_series_as_before() -> None:
    history = History()
    both = [Sample(POWER, 1.0, 10.0, labels(npu=str(npu))) for npu in range(2)]
    history.add(both, "npu_smi")
    history.end("npu_smi")
    assert history.series(POWER) == []
    history.add(both, "npu_smi")
    assert len(history.series(POWER)) == 2
    history.add(both[:1], "npu_smi")
    assert history.series(POWER) == [both[0].labels]
