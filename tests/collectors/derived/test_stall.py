"""A stall is requests that run while nothing grows, and nothing else is one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.derived import stall
from collectors.engines.stall import stalled_seconds
from collectors.history import History
from collectors.sample import Sample, labels
from tests.collectors.derived.stories import ENGINE, NOW, by_labels, every, one_bucket

Of = Callable[[float], float]


def told(running: Of, tokens: Of | None, steps: Of | None) -> tuple[float, float] | None:
    """Seconds (as told at `NOW`) and suspicion of an engine whose quantities are functions of seconds before now."""
    history = History()
    for time in every(1.0, 200.0):
        ago = NOW - time
        history.add([Sample("trimtab_engine_requests_running", running(ago), time, ENGINE)])
        if tokens is not None:
            history.add([Sample("trimtab_engine_generation_tokens_total", tokens(ago), time, ENGINE)])
        if steps is not None:
            made = one_bucket(steps(ago) * 10.0, steps(ago))
            history.add([Sample("trimtab_engine_step_tokens", made, time, ENGINE)])
    found = list(stall.samples(history, NOW))
    if not found:
        return None
    return (
        by_labels(found, "trimtab_engine_stalled_seconds")[ENGINE],
        by_labels(found, "trimtab_engine_stall_suspected")[ENGINE],
    )


def until(stop: float, pace: float = 1.0) -> Of:
    """A counter that grew until `stop` seconds ago."""
    return lambda ago: 1000.0 - pace * max(ago, stop)


def still(ago: float) -> float:
    return 5.0


def test_requests_that_run_without_a_step_or_a_token_are_a_stall() -> None:
    assert told(still, until(90.0), until(90.0)) == (90.0, 1.0)


def test_less_than_a_minute_is_told_and_not_suspected() -> None:
    assert told(still, until(59.0), until(59.0)) == (59.0, 0.0)


def test_a_long_prefill_makes_steps_and_no_tokens() -> None:
    assert told(still, until(150.0), until(0.0)) == (0.0, 0.0)


def test_tokens_alone_are_progress_where_steps_are_not_counted() -> None:
    assert told(still, until(0.0), None) == (0.0, 0.0)
    assert told(still, until(70.0), None) == (70.0, 1.0)


def test_an_idle_engine_is_not_stalled() -> None:
    assert told(lambda ago: 0.0, until(150.0), until(150.0)) == (0.0, 0.0)


def test_requests_that_came_a_moment_ago_count_from_then() -> None:
    # The last reading without any is the last that is known of.
    assert told(lambda ago: float(ago <= 10.0), until(150.0), until(150.0)) == (11.0, 0.0)


def test_a_restart_is_progress() -> None:
    assert told(still, lambda ago: 500.0 if ago > 20.0 else 3.0, None) == (20.0, 0.0)


def test_without_a_sign_of_progress_nothing_is_known() -> None:
    assert told(still, None, None) is None
    assert stalled_seconds([], [[(0.0, 1.0), (1.0, 1.0)]]) is None


def test_a_source_that_fails_says_nothing_of_a_stall() -> None:
    history = History()
    for time in every(1.0, 100.0):
        history.add(
            [
                Sample("trimtab_engine_requests_running", 4.0, time, ENGINE),
                Sample("trimtab_engine_generation_tokens_total", 9.0, time, ENGINE),
            ],
            source="vllm",
        )
    assert list(stall.samples(history, NOW))
    history.end("vllm")
    assert list(stall.samples(history, NOW)) == []


def points(times: list[float], values: list[float]) -> list[tuple[float, float]]:
    return list(zip(times, values, strict=True))


@given(
    st.lists(st.booleans(), min_size=2, max_size=60),
    st.lists(st.integers(0, 2), min_size=2, max_size=60),
    st.floats(-1e6, 1e6),
    st.floats(0.0, 1e9),
)
def test_a_shift_of_clock_and_counter_changes_nothing(
    runs: list[bool], steps: list[int], clock: float, base: float
) -> None:
    size = min(len(runs), len(steps))
    times = [float(place) for place in range(size)]
    running = [float(run) for run in runs[:size]]
    counted = [float(sum(steps[: place + 1])) for place in range(size)]
    plain = stalled_seconds(points(times, running), [points(times, counted)])
    moved = [time + clock for time in times]
    shifted = stalled_seconds(points(moved, running), [points(moved, [round(base) + c for c in counted])])
    assert plain is not None and shifted == pytest.approx(plain, abs=1e-3)
    assert 0.0 <= plain <= size - 1
    if running[-1] == 0.0 or steps[size - 1] > 0:
        assert plain == 0.0


def test_a_watched_engine_is_judged_by_its_own_counters() -> None:
    history, watched = History(), labels(engine="0", model="m", server="b")
    for time in every(1.0, 200.0):
        for own, count in ((ENGINE, time), (watched, 7.0)):
            history.add([Sample("trimtab_engine_requests_running", 5.0, time, own)])
            history.add([Sample("trimtab_engine_generation_tokens_total", count, time, own)])
    found = by_labels(stall.samples(history, NOW), "trimtab_engine_stall_suspected")
    assert found == {ENGINE: 0.0, watched: 1.0}


def test_ranks_whose_tokens_are_counted_together_do_not_stall_while_these_grow() -> None:
    history = History()
    ranks = [labels(engine=rank, model="m", server="b") for rank in ("0", "1")]
    for time in every(1.0, 200.0):
        history.add([Sample("trimtab_engine_requests_running", 5.0, time, rank) for rank in ranks])
        together = labels(model="m", server="b")
        history.add([Sample("trimtab_engine_generation_tokens_total", time, time, together)])
    found = by_labels(stall.samples(history, NOW), "trimtab_engine_stall_suspected")
    assert found == dict.fromkeys(ranks, 0.0)
