"""The short form of the detection measurements, and how a run is judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from bench import detect, healthy_week
from bench.detect import Found
from bench.detect_world import Walk
from sim.faults import FAULTS, FaultName

GOOD = Found("stall", 1, "", {}, True, "EngineStalled", 70.0, True, True, True, 160.0, (), (), 1.0)


def many(short: int, of: int = 20, fault: FaultName = "stall") -> list[Found]:
    """Runs of one fault of which some fall short."""
    return [replace(GOOD, fault=fault, seed=seed, fixed=seed >= short) for seed in range(of)]


def test_a_run_is_good_only_if_all_of_it_is() -> None:
    assert GOOD.good
    assert not replace(GOOD, detected=None).good
    assert not replace(GOOD, playbook=False).good
    assert not replace(GOOD, cause=False).good
    assert not replace(GOOD, fixed=False).good


def test_eleven_may_fall_short_but_not_four_of_one_fault() -> None:
    whole = [one for fault in FAULTS[1:] for one in many(0, fault=fault)]
    assert detect.reached([*whole, *many(3, fault=FAULTS[0])])
    assert not detect.reached([*whole, *many(4, fault=FAULTS[0])])
    assert detect.reached([one for fault in FAULTS for one in many(1, fault=fault)])
    spread = [
        one for number, fault in enumerate(FAULTS) for one in many(2 if number == 0 else 1, fault=fault)
    ]
    assert not detect.reached(spread)


def test_the_table_and_the_summary_tell_what_fell_short() -> None:
    walk = Walk("sudden_throughput_drop", "ThroughputFell", "inconclusive", "kv_full", None, 0.0, 1.0)
    bad = replace(GOOD, seed=2, playbook=False, cause=False, fixed=False, fixed_after=None, walks=(walk,))
    row = detect.table([GOOD, bad]).splitlines()[1].split()
    assert row[:7] == ["stall", "2", "2", "1", "1", "1", "1"]
    said = detect.summary([GOOD, bad])
    assert "1 of 2" in said
    assert "stall 2 : not its playbook, cause kv_full, not mended" in said


@pytest.mark.campaign
def test_faults_are_found_named_and_mended(say: Callable[[str], None]) -> None:
    found = detect.all_found(range(111, 113))
    say(f"{detect.table(found)}\n{detect.summary(found)}")
    assert sum(one.good for one in found) >= 20


@pytest.mark.campaign
def test_a_healthy_day_is_quiet(say: Callable[[str], None]) -> None:
    day = healthy_week.lived(days=1.0, seed=111)
    say(healthy_week.told(day))
    assert day.good
