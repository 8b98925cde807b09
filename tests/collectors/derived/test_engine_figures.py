"""Queue share, tokens per busy second, prefix hits, KV room and preemptions, from an engine's own readings."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.derived import busy_tokens, kv_room, preemptions, prefix_hits, queue_share
from collectors.derived.queue_share import queue_share as share_of
from collectors.history import History
from collectors.sample import Labels, Sample, labels
from tests.collectors.derived.stories import ENGINE, NOW, by_labels, every, fill, one_bucket, only

OTHER = labels(engine="1", model="m")


def requests(history: History, own: Labels = ENGINE, *, rate: float, queued: float, whole: float) -> None:
    for time in every(1.0, 300.0):
        count = rate * (time - NOW + 1000.0)
        history.add(
            [
                Sample("trimtab_engine_e2e_seconds", one_bucket(count * whole, count), time, own),
                Sample("trimtab_engine_queue_seconds", one_bucket(count * queued, count), time, own),
            ]
        )


def test_the_queue_share_is_waiting_over_whole_time_of_each_engine() -> None:
    history = History()
    requests(history, rate=2.0, queued=3.5, whole=10.0)
    requests(history, OTHER, rate=2.0, queued=0.0, whole=10.0)
    found = by_labels(queue_share.samples(history, NOW), "trimtab_engine_queue_share_ratio")
    assert found == {ENGINE: pytest.approx(0.35), OTHER: 0.0}


def test_the_queue_share_is_of_what_ended_lately() -> None:
    history = History()
    requests(history, rate=2.0, queued=1.0, whole=10.0)
    before = 2.0 * 1000.0
    for time in np.arange(NOW + 1.0, NOW + 121.0):
        count = before + 2.0 * (time - NOW)
        history.add(
            [
                Sample("trimtab_engine_e2e_seconds", one_bucket(count * 10.0, count), time, ENGINE),
                Sample(
                    "trimtab_engine_queue_seconds",
                    one_bucket(before + 8.0 * (count - before), count),
                    time,
                    ENGINE,
                ),
            ]
        )
    share = only(queue_share.samples(history, NOW + 120.0), "trimtab_engine_queue_share_ratio")
    assert share == pytest.approx(0.8, abs=0.01)


def test_a_few_requests_are_no_share() -> None:
    assert share_of(one_bucket(9.0, 4.0), one_bucket(10.0, 4.0)) is None
    assert share_of(one_bucket(9.0, 5.0), one_bucket(10.0, 5.0)) == pytest.approx(0.9)
    assert share_of(one_bucket(0.0, 5.0), one_bucket(0.0, 5.0)) is None


def test_an_engine_without_queue_times_has_no_share() -> None:
    history = History()
    for time in every(1.0, 100.0):
        history.add([Sample("trimtab_engine_e2e_seconds", one_bucket(time, time), time, ENGINE)])
    assert list(queue_share.samples(history, NOW)) == []


@given(st.floats(0.0, 1e6), st.floats(1e-3, 1e6), st.floats(1e-3, 1e3), st.integers(5, 10**6))
def test_the_share_does_not_hang_on_the_unit_of_time(
    queued: float, whole: float, scale: float, count: int
) -> None:
    plain = share_of(one_bucket(queued, count), one_bucket(whole, count))
    scaled = share_of(one_bucket(queued * scale, count), one_bucket(whole * scale, count))
    assert plain is not None and 0.0 <= plain <= 1.0
    assert scaled == pytest.approx(plain)


def tokens(
    history: History, running: Callable[[float], float], count: Callable[[float], float]
) -> float | None:
    fill(history, "trimtab_engine_requests_running", ENGINE, every(1.0, 121.0), running)
    fill(history, "trimtab_engine_generation_tokens_total", ENGINE, every(1.0, 121.0), count)
    found = by_labels(busy_tokens.samples(history, NOW), "trimtab_engine_tokens_per_busy_second")
    return found.get(ENGINE)


def test_an_engine_that_idles_half_the_time_is_as_fast_as_it_is_when_busy() -> None:
    def busy(time: float) -> bool:
        return time > NOW - 60.0

    found = tokens(
        History(), lambda time: 8.0 if busy(time) else 0.0, lambda time: 400.0 * max(time - NOW + 60.0, 0.0)
    )
    assert found == pytest.approx(400.0, rel=0.02)


def test_an_idle_engine_has_no_speed() -> None:
    assert tokens(History(), lambda time: 0.0, lambda time: 5.0) is None
    assert tokens(History(), lambda time: float(time > NOW - 5.0), lambda time: time - NOW + 200.0) is None


def test_an_engine_that_hangs_while_busy_is_slow_and_not_unknown() -> None:
    assert tokens(History(), lambda time: 8.0, lambda time: 5.0) == 0.0


def test_prefix_hits_are_of_the_tokens_looked_up_lately() -> None:
    history = History()
    fill(
        history,
        "trimtab_engine_prefix_cache_queried_tokens_total",
        ENGINE,
        every(1.0, 400.0),
        lambda t: t * 50.0,
    )
    fill(
        history, "trimtab_engine_prefix_cache_hit_tokens_total", ENGINE, every(1.0, 400.0), lambda t: t * 20.0
    )
    assert only(prefix_hits.samples(history, NOW), "trimtab_engine_prefix_hit_ratio") == pytest.approx(0.4)


def test_nothing_looked_up_is_no_hit_ratio() -> None:
    history = History()
    for name in ("queried", "hit"):
        fill(
            history,
            f"trimtab_engine_prefix_cache_{name}_tokens_total",
            ENGINE,
            every(1.0, 99.0),
            lambda t: 7.0,
        )
    assert list(prefix_hits.samples(history, NOW)) == []


def cache(**figures: float) -> list[Sample]:
    history = History()
    history.add(
        [Sample(f"trimtab_engine_kv_cache_{name}", value, NOW, ENGINE) for name, value in figures.items()]
    )
    return list(kv_room.samples(history, NOW))


def test_the_room_of_the_kv_cache_in_shares_blocks_and_tokens() -> None:
    found = cache(usage_ratio=0.75, blocks=4000.0, block_tokens=128.0)
    assert only(found, "trimtab_engine_kv_free_ratio") == pytest.approx(0.25)
    assert only(found, "trimtab_engine_kv_free_blocks") == 1000.0
    assert only(found, "trimtab_engine_kv_free_tokens") == 128_000.0


def test_what_the_engine_does_not_say_of_its_cache_is_not_made_up() -> None:
    assert [sample.name for sample in cache(usage_ratio=0.75)] == ["trimtab_engine_kv_free_ratio"]
    assert [sample.name for sample in cache(usage_ratio=0.5, blocks=10.0)] == [
        "trimtab_engine_kv_free_ratio",
        "trimtab_engine_kv_free_blocks",
    ]
    assert cache(blocks=10.0, block_tokens=16.0) == []
    assert cache(usage_ratio=1.7) == []


def test_preemptions_are_counted_over_a_restart() -> None:
    history = History()
    fill(
        history,
        "trimtab_engine_preemptions_total",
        ENGINE,
        every(1.0, 121.0),
        lambda t: (t - NOW + 120.0) % 60.0,
    )
    rate = only(preemptions.samples(history, NOW), "trimtab_engine_preemptions_per_second")
    assert rate == pytest.approx(1.0, abs=0.03)


@pytest.mark.parametrize(
    "samples",
    [module.samples for module in (queue_share, busy_tokens, prefix_hits, kv_room, preemptions)],
)
def test_nothing_known_is_nothing_said(samples: Callable[[History, float], Iterator[Sample]]) -> None:
    assert list(samples(History(), NOW)) == []


def constantly(value: float) -> Callable[[float], float]:
    return lambda time: value


def growing(pace: float) -> Callable[[float], float]:
    return lambda time: pace * time


WATCHED = labels(engine="0", model="m", server="b")


def test_each_watched_engine_has_figures_of_its_own() -> None:
    history = History()
    requests(history, rate=2.0, queued=3.5, whole=10.0)
    requests(history, WATCHED, rate=2.0, queued=1.0, whole=10.0)
    for own, running in ((ENGINE, 0.0), (WATCHED, 8.0)):
        fill(history, "trimtab_engine_requests_running", own, every(1.0, 121.0), constantly(running))
        fill(history, "trimtab_engine_generation_tokens_total", own, every(1.0, 121.0), lambda t: 3.0 * t)
        fill(history, "trimtab_engine_preemptions_total", own, every(1.0, 121.0), growing(running))
        history.add([Sample("trimtab_engine_kv_cache_usage_ratio", running / 10.0, NOW, own)])
    found = [
        *queue_share.samples(history, NOW),
        *busy_tokens.samples(history, NOW),
        *preemptions.samples(history, NOW),
        *kv_room.samples(history, NOW),
    ]
    shares = by_labels(found, "trimtab_engine_queue_share_ratio")
    assert shares == {ENGINE: pytest.approx(0.35), WATCHED: pytest.approx(0.1)}
    assert by_labels(found, "trimtab_engine_tokens_per_busy_second") == {WATCHED: pytest.approx(3.0)}
    preempted = by_labels(found, "trimtab_engine_preemptions_per_second")
    assert preempted == {ENGINE: 0.0, WATCHED: pytest.approx(8.0)}
    assert by_labels(found, "trimtab_engine_kv_free_ratio") == {ENGINE: 1.0, WATCHED: pytest.approx(0.2)}


def test_tokens_counted_for_all_ranks_are_over_the_time_in_which_any_was_busy() -> None:
    history = History()
    for rank in ("0", "1"):
        busy = (lambda t: 4.0 * (t > NOW - 60.0)) if rank == "1" else (lambda t: 0.0)
        fill(
            history,
            "trimtab_engine_requests_running",
            labels(engine=rank, model="m"),
            every(1.0, 121.0),
            busy,
        )
    both = labels(model="m")
    fill(
        history,
        "trimtab_engine_generation_tokens_total",
        both,
        every(1.0, 121.0),
        lambda t: 50.0 * max(t - NOW + 60, 0),
    )
    found = by_labels(busy_tokens.samples(history, NOW), "trimtab_engine_tokens_per_busy_second")
    assert found == {both: pytest.approx(50.0, rel=0.02)}
