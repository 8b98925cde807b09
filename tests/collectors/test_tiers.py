"""A series takes bounded memory and keeps its shape at coarser resolution."""

from __future__ import annotations

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
