"""Memory that goes hour after hour is told from warm-up, load, steps and saw-teeth."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from collectors.derived import leak
from collectors.history import History
from collectors.sample import Sample
from tests.collectors.derived.stories import NOW, Floats, by_labels, card, every, fill_values

GIB = 1024.0**3
HBM = "npu_hbm_used_bytes"
RSS = "trimtab_engine_process_resident_bytes"
AVAILABLE = "trimtab_host_memory_available_bytes"
Of = Callable[[Floats], Floats]


def told(
    name: str, of_hours: Of, hours: float = 12.0, noise: float = 0.0, started: float | None = None
) -> tuple[float, float] | None:
    """Growth and lower bound in GiB per hour; `of_hours` gives GiB by hours since the first reading."""
    history, draw = History(), np.random.default_rng(7)
    times = every(30.0, hours * 3600.0)
    values = of_hours((times - times[0]) / 3600.0) + noise * draw.standard_normal(len(times))
    own = card(0) if name == HBM else ()
    if started is not None:
        history.add([Sample("trimtab_engine_start_time_seconds", NOW - started * 3600.0, NOW)])
    fill_values(history, name, own, times, values * GIB)
    found = list(leak.samples(history, NOW))
    if not found:
        return None
    middle, low = found
    assert (
        middle.labels == low.labels == own
        and isinstance(middle.value, float)
        and isinstance(low.value, float)
    )
    return middle.value / GIB, low.value / GIB


def test_hbm_that_grows_all_along_is_a_leak_with_its_rate() -> None:
    found = told(HBM, lambda hours: 50.0 + 0.1 * hours, noise=0.02)
    assert found is not None
    assert found[0] == pytest.approx(0.1, rel=0.05)
    assert 0.07 <= found[1] <= 0.1


def test_usable_memory_down_28_percent_in_12_hours_is_a_leak() -> None:
    found = told(AVAILABLE, lambda hours: 400.0 * (1.0 - 0.28 * hours / 12.0), noise=4.0)
    assert found is not None
    assert found[0] == pytest.approx(400.0 * 0.28 / 12.0, rel=0.05)
    assert found[1] > 5.0


def test_a_leak_of_the_engine_s_processes_is_seen_beneath_the_load() -> None:
    found = told(RSS, lambda hours: 20.0 + 0.5 * hours + 0.2 * np.sin(hours * 40.0), noise=0.1)
    assert found is not None and found[1] > 0.3


@pytest.mark.parametrize("name", [HBM, RSS])
@pytest.mark.parametrize(
    ("of_hours", "noise"),
    [
        (lambda hours: 50.0 + 0.0 * hours, 0.0),
        (lambda hours: 50.0 + 0.0 * hours, 0.5),
        (lambda hours: 50.0 + 5.0 * np.minimum(hours, 1.0), 0.05),
        (lambda hours: 50.0 + 5.0 * (1.0 - np.exp(-hours)), 0.05),
        (lambda hours: 50.0 + 5.0 * (hours > 6.0), 0.05),
        (lambda hours: 50.0 + 5.0 * (hours > 3.0) + 5.0 * (hours > 9.0), 0.05),
        (lambda hours: 50.0 + hours % 3.0, 0.05),
        (lambda hours: 50.0 + hours % 5.0, 0.05),
        (lambda hours: 50.0 + np.where(hours > 9.0, hours - 9.0, hours), 0.05),
        (lambda hours: 50.0 - 0.5 * hours, 0.05),
    ],
    ids=["flat", "noise", "ramp", "warm-up", "step", "steps", "saw-tooth", "long-saw-tooth", "drop", "falls"],
)
def test_what_is_no_leak(name: str, of_hours: Of, noise: float) -> None:
    found = told(name, of_hours, noise=noise)
    assert found is not None and found[1] <= 0.0005


def test_a_daily_swing_that_rose_as_high_yesterday_is_no_leak() -> None:
    def swing(hours: Floats) -> Floats:
        return 50.0 - 5.0 * np.cos(hours / 24.0 * 2.0 * np.pi - np.pi)

    found = told(RSS, swing, hours=24.0, noise=0.05)
    assert found is not None and found[1] <= 0.0


def test_a_leak_that_goes_on_for_a_day_is_still_one() -> None:
    found = told(HBM, lambda hours: 40.0 + 0.2 * hours, hours=24.0, noise=0.02)
    assert found is not None and found[1] > 0.15


def test_six_hours_are_needed() -> None:
    assert told(HBM, lambda hours: 50.0 + hours, hours=5.5) is None
    assert told(HBM, lambda hours: 50.0 + hours, hours=6.5) is not None


def test_what_the_process_before_the_restart_held_does_not_count() -> None:
    def two_lives(hours: Floats) -> Floats:
        return np.where(hours < 5.0, 30.0 + hours, 20.0 + 0.5 * hours)

    found = told(RSS, two_lives, started=7.0)
    assert found is not None and found[0] == pytest.approx(0.5) and found[1] == pytest.approx(0.5, rel=0.15)
    assert told(RSS, two_lives, started=3.0) is None
    assert told(AVAILABLE, lambda hours: 400.0 - 2.0 * hours, started=3.0) is not None


def test_missing_readings_do_not_hide_a_leak() -> None:
    history, draw = History(), np.random.default_rng(8)
    times = every(30.0, 12 * 3600.0)
    times = times[(draw.random(len(times)) < 0.5) & ((times < NOW - 20_000.0) | (times > NOW - 18_000.0))]
    fill_values(history, HBM, card(0), times, (50.0 + (times - NOW) / 36_000.0) * GIB)
    low = by_labels(leak.samples(history, NOW), "npu_hbm_growth_low_bytes_per_hour")[card(0)]
    assert low == pytest.approx(0.1 * GIB, rel=0.02)


def test_nothing_known_is_nothing_said() -> None:
    assert list(leak.samples(History(), NOW)) == []
