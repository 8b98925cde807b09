"""The CPU time of the engine's processes never falls and is never counted twice, whoever of them ends."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.host.cpu_time import CpuTime
from collectors.host.tasks import Stat

MAIN = Stat(10, "vllm", "S", 1, 10.0, 0.0, 1, 100, 0.0, 0)
WORKER = replace(MAIN, number=11, parent=10, cpu_seconds=50_000.0)
SMALL = replace(MAIN, number=12, parent=10, cpu_seconds=1.0)


def test_a_child_that_ended_and_is_not_waited_for_takes_nothing_away_and_adds_nothing() -> None:
    time = CpuTime()
    assert time.add([MAIN, WORKER, SMALL]) == 50_011.0
    assert time.add([MAIN, WORKER]) == 50_011.0, "a zombie is no process any more"
    waited = replace(MAIN, reaped_cpu_seconds=1.5)
    assert time.add([waited, WORKER]) == pytest.approx(50_011.5), "what it used after it was read last"
    assert time.add([waited, WORKER]) == pytest.approx(50_011.5)


def test_a_child_that_nobody_ever_waits_for_does_not_stop_the_count() -> None:
    time = CpuTime()
    time.add([MAIN, WORKER])
    assert time.add([replace(MAIN, cpu_seconds=12.0)]) == 50_012.0


def test_a_child_that_was_never_seen_is_counted_by_its_parent() -> None:
    time = CpuTime()
    assert time.add([replace(MAIN, reaped_cpu_seconds=3.0)]) == 13.0
    assert time.add([replace(MAIN, reaped_cpu_seconds=5.0)]) == 15.0


def test_a_parent_that_ends_with_its_child_passes_both_on() -> None:
    time = CpuTime()
    below = replace(MAIN, number=13, parent=11, cpu_seconds=7.0)
    assert time.add([MAIN, WORKER, below]) == 50_017.0
    assert time.add([replace(MAIN, reaped_cpu_seconds=50_007.0)]) == 50_017.0


def test_a_number_that_was_given_again_is_another_process() -> None:
    time = CpuTime()
    time.add([MAIN, WORKER])
    assert time.add([MAIN, replace(WORKER, start_ticks=200, cpu_seconds=1.0)]) == 50_011.0


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from(["work", "start", "end", "wait", "read"])), max_size=60
    )
)
def test_at_any_order_of_ends_and_waits_it_is_the_time_used(steps: list[tuple[int, str]]) -> None:
    """Four children of one parent; whatever happens between two readings, no second is lost for good or doubled."""
    time, last = CpuTime(), 0.0
    main, children, zombies, born = MAIN, dict[int, Stat](), dict[int, Stat](), 1000
    used = main.cpu_seconds
    for slot, step in steps:
        if step == "work" and slot in children:
            children[slot] = replace(children[slot], cpu_seconds=children[slot].cpu_seconds + 8.0)
            used += 8.0
        elif step == "start" and slot not in children and slot not in zombies:
            born += 1
            children[slot] = replace(SMALL, number=20 + slot, cpu_seconds=0.0, start_ticks=born)
        elif step == "end" and slot in children:
            zombies[slot] = children.pop(slot)
        elif step == "wait" and slot in zombies:
            main = replace(main, reaped_cpu_seconds=main.reaped_cpu_seconds + zombies.pop(slot).cpu_seconds)
        elif step == "read":
            found = time.add([main, *children.values()])
            assert last <= found <= used
            last = found
    for zombie in (*zombies.values(), *children.values()):
        main = replace(main, reaped_cpu_seconds=main.reaped_cpu_seconds + zombie.cpu_seconds)
    assert time.add([main]) == used
