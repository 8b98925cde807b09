"""A series takes bounded memory and keeps its shape at coarser resolution."""

from __future__ import annotations

import math

import pytest

from collectors.tiers import TIERS, Ring, Rings, Tier


def rows(ring: Ring) -> list[tuple[float, tuple[float, ...]]]:
    return [(ring.time(at), ring.row(at)) for at in range(len(ring))]


def test_every_reading_is_kept_in_the_finest_tier() -> None:
    ring = Ring(Tier(0.0, 100.0, 1000), 2, mean=False)
    for time in range(5):
        ring.append(time, (time, time * 2))
    assert rows(ring)[-1] == (4.0, (4.0, 8.0))
    assert len(ring) == 5


def test_a_slot_keeps_the_mean_of_a_gauge() -> None:
    ring = Ring(Tier(10.0, 100.0, 1000), 1, mean=True)
    for time in range(20):
        ring.append(time, (float(time),))
    assert rows(ring) == [(9.0, (4.5,)), (19.0, (14.5,))]


def test_a_slot_keeps_the_last_of_a_counter() -> None:
    ring = Ring(Tier(10.0, 100.0, 1000), 1, mean=False)
    for time in range(20):
        ring.append(time, (float(time),))
    assert rows(ring) == [(9.0, (9.0,)), (19.0, (19.0,))]


def test_old_rows_leave_by_age() -> None:
    ring = Ring(Tier(0.0, 10.0, 1000), 1, mean=True)
    for time in range(100):
        ring.append(time, (0.0,))
    assert 10 <= len(ring) <= 12
    assert ring.oldest is not None and ring.oldest >= 88.0


def test_rows_leave_by_number_when_they_come_too_fast() -> None:
    ring = Ring(Tier(0.0, 1e9, 50), 1, mean=True)
    for time in range(1000):
        ring.append(time / 1000.0, (0.0,))
    assert 45 <= len(ring) <= 50


def test_span_takes_both_ends() -> None:
    ring = Ring(Tier(0.0, 100.0, 1000), 1, mean=True)
    for time in range(10):
        ring.append(time, (0.0,))
    assert ring.span(2.0, 5.0) == (2, 6)
    assert ring.span(2.5, 2.7) == (3, 3)
    assert ring.span(-5.0, 50.0) == (0, 10)


def test_a_question_goes_to_the_finest_tier_that_reaches_back() -> None:
    rings = Rings(1, mean=True)
    for time in range(0, 20_000, 5):
        rings.append(float(time), (0.0,))

    def gap(start: float) -> float:
        ring = rings.reaching(start)
        return ring.time(3) - ring.time(2)

    assert gap(19_500.0) == 5.0
    assert gap(15_000.0) == 10.0
    assert gap(5_000.0) == 60.0
    assert gap(-5_000.0) == 60.0


def test_a_week_of_readings_stays_within_the_limit() -> None:
    rings = Rings(1, mean=True)
    for time in range(0, 7 * 86400, 20):
        rings.append(float(time), (0.0,))
    assert rings.points() <= sum(tier.max_points for tier in TIERS)
    ring = rings.reaching(0.0)
    assert ring.oldest is not None and 7 * 86400 - ring.oldest >= 0.8 * TIERS[-1].keep_seconds


def test_a_slot_is_found_by_the_very_time_of_its_reading() -> None:
    ring = Ring(Tier(10.0, 1000.0, 1000), 1, mean=True)
    read = [1_700_000_000.0 + 10.0 * step + 0.123456 for step in range(20)]
    for time in read:
        ring.append(time, (1.0,))
    assert ring.span(read[3], read[7]) == (3, 8)
    assert [ring.time(at) for at in range(20)] == pytest.approx(read, abs=0.001)
    assert list(ring.column(read[3], read[7], 0)[0]) == [ring.time(at) for at in range(3, 8)]


def test_rings_that_began_apart_have_equal_times_for_equal_readings() -> None:
    rings = [Ring(Tier(10.0, 1000.0, 1000), 1, mean=True) for _ in range(2)]
    for step in range(20):
        time = 1_700_000_000.0 + 13.7654321 * step
        for ring in rings[: 1 if step < 5 else 2]:
            ring.append(time, (1.0,))
    first, second = (ring.column(0.0, math.inf, 0)[0] for ring in rings)
    assert list(first[5:]) == list(second)


def test_a_clock_that_leaps_by_months_loses_only_what_is_too_old() -> None:
    ring = Ring(Tier(10.0, 100.0, 1000), 1, mean=True)
    day = 86400.0
    for time in (0.0, 20.0, 100 * day, 100 * day + 20.0, 100 * day + 40.0):
        ring.append(time, (time,))
    assert rows(ring) == [(time, (time,)) for time in (100 * day, 100 * day + 20.0, 100 * day + 40.0)]


def test_rows_are_kept_while_the_base_of_their_times_moves() -> None:
    ring = Ring(Tier(10.0, 21 * 86400.0, 1000), 1, mean=True)
    times = [86400.0 * day for day in range(0, 140, 7)]
    for time in times:
        ring.append(time, (time,))
    assert rows(ring)[-3:] == [(time, (time,)) for time in times[-3:]]


def test_slots_are_not_kept_for_longer_than_their_times_reach() -> None:
    with pytest.raises(ValueError, match="three weeks at most"):
        Tier(60.0, 50 * 86400.0, 1000)
