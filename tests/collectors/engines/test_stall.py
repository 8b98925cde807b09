"""An engine that looks stuck, and everything that must not be taken for it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.engines.stall import rank_stalls, stall, stalled_seconds
from collectors.history import History
from collectors.sample import Distribution, Labels, Sample, labels

NOW = 1_700_000_000.0
AFTER = 60.0


def points(*values: float, step: float = 5.0, end: float = NOW) -> list[tuple[float, float]]:
    """Readings `step` seconds apart, the last one at `end`."""
    first = end - step * (len(values) - 1)
    return [(first + step * at, value) for at, value in enumerate(values)]


RUNS = points(*[8.0] * 25)
STILL = points(*[500.0] * 25)


def test_requests_that_run_without_any_progress_are_a_stall() -> None:
    assert stall(RUNS, [STILL, STILL], NOW, AFTER) is True


def test_a_counter_that_grew_within_the_time_is_life() -> None:
    late = points(*[500.0] * 24, 501.0)
    assert stall(RUNS, [STILL, late], NOW, AFTER) is False


def test_growth_before_the_time_is_none() -> None:
    early = points(400.0, *[500.0] * 24)
    assert stall(RUNS, [early], NOW, AFTER) is True


def test_an_engine_that_was_idle_within_the_time_is_not_stuck() -> None:
    idle = points(*[8.0] * 20, 0.0, *[8.0] * 4)
    assert stall(idle, [STILL], NOW, AFTER) is False


@pytest.mark.parametrize(
    ("running", "progress"),
    [([], [STILL]), (RUNS, []), (RUNS, [[]]), (points(8.0, 8.0), [STILL]), (RUNS, [points(500.0, 500.0)])],
    ids=["no gauge", "no counter", "empty counter", "short gauge", "short counter"],
)
def test_too_little_was_read_to_tell(
    running: list[tuple[float, float]], progress: list[list[tuple[float, float]]]
) -> None:
    assert stall(running, progress, NOW, AFTER) is None


def test_readings_that_stopped_tell_nothing() -> None:
    assert stall(RUNS, [STILL], NOW + 31.0, AFTER) is None
    assert stall(RUNS, [STILL], NOW + 29.0, AFTER) is True


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=2, max_size=40), st.floats(10.0, 200.0)
)
def test_a_stall_always_means_a_whole_time_without_a_step(
    readings: list[tuple[int, int]], after: float
) -> None:
    """Whatever was read: a verdict of True holds against a slow recount."""
    running = points(*(float(run) for run, _ in readings))
    total, steps = 0.0, []
    for _, grown in readings:
        total += grown
        steps.append(total)
    progress = points(*steps)
    if stall(running, [progress], NOW, after) is True:
        inside = [at for at, (time, _) in enumerate(progress) if time >= NOW - after]
        assert all(readings[at][0] > 0 for at in inside)
        assert all(readings[at][1] == 0 for at in inside[1:])
        assert progress[0][0] <= NOW - after


def test_how_long_is_counted_from_the_last_sign_of_life_and_no_longer_than_was_read() -> None:
    assert stalled_seconds(RUNS, [STILL]) == 120.0
    assert stalled_seconds(RUNS, [STILL, points(400.0, 400.0, *[500.0] * 23)]) == 110.0
    assert stalled_seconds(points(*[8.0] * 10, 0.0, *[8.0] * 14), [STILL]) == 70.0
    assert stalled_seconds(RUNS, [points(*[float(at) for at in range(25)])]) == 0.0
    assert stalled_seconds(points(*[8.0] * 24, 0.0), [STILL]) == 0.0
    assert stalled_seconds([], [STILL]) is stalled_seconds(RUNS, [[]]) is None


def feed(history: History, seconds: float, rank: Labels, tokens: float, running: float = 4.0) -> None:
    history.add(
        [
            Sample("trimtab_engine_requests_running", running, NOW + seconds, rank),
            Sample("trimtab_engine_generation_tokens_total", tokens, NOW + seconds, rank),
            Sample(
                "trimtab_engine_step_tokens",
                Distribution((float("inf"),), (tokens,), tokens, tokens),
                NOW + seconds,
                rank,
            ),
        ]
    )


def test_one_stuck_rank_is_not_hidden_by_the_others() -> None:
    history = History()
    well, stuck = labels(engine="0", model="m"), labels(engine="1", model="m")
    for second in range(0, 121, 5):
        feed(history, second, well, tokens=100.0 * second)
        feed(history, second, stuck, tokens=70.0)
    assert rank_stalls(history, NOW + 120, AFTER) == {well: False, stuck: True}


def test_a_restart_of_the_engine_is_no_progress_of_its_own() -> None:
    history = History()
    rank = labels(engine="0", model="m")
    for second in range(0, 121, 5):
        feed(history, second, rank, tokens=900.0 if second < 30 else 0.0)
    assert rank_stalls(history, NOW + 120, AFTER) == {rank: True}


def test_ranks_without_counters_of_their_own_are_judged_by_the_servers() -> None:
    history = History()
    for second in range(0, 121, 5):
        for rank in ("0", "1"):
            own = labels(engine=rank, model="m")
            history.add([Sample("trimtab_engine_requests_running", 3.0, NOW + second, own)])
        shared = labels(engine="0", model="m")
        history.add([Sample("trimtab_engine_generation_tokens_total", 10.0 * second, NOW + second, shared)])
    assert set(rank_stalls(history, NOW + 120, AFTER).values()) == {False}


def test_a_watched_engine_is_judged_by_itself() -> None:
    history = History()
    tuned, watched = labels(engine="0", model="m"), labels(engine="0", model="m", server="b")
    for second in range(0, 121, 5):
        feed(history, second, tuned, tokens=100.0 * second)
        feed(history, second, watched, tokens=70.0)
    assert rank_stalls(history, NOW + 120, AFTER) == {tuned: False}
    assert rank_stalls(history, NOW + 120, AFTER, server="b") == {watched: True}
    assert rank_stalls(history, NOW + 120, AFTER, server="c") == {}


def test_without_running_requests_there_is_nothing_to_say() -> None:
    assert rank_stalls(History(), NOW, AFTER) == {}
