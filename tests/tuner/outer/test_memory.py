"""What starts are remembered for: failures, knobs without a hold, and the risk of the next one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.outer.memory import MOST_RISK, Start, StartMemory, unlike

BASE = {"block_size": 128, "gpu_memory_utilization": 0.9, "batch_max_tokens": 2048, "max_num_seqs": 256}
OOM = "NPU out of memory. Tried to allocate 2.00 GiB"

shares = st.floats(0.5, 0.99)
budgets = st.sampled_from([1024, 2048, 4096, 8192])


def failed(reason: str = OOM, **settings: float) -> Start:
    return Start({**BASE, **settings}, {}, "failed", reason)


def served(**settings: float) -> Start:
    return Start({**BASE, **settings}, {**BASE, **settings}, "served")


def test_the_same_failed_settings_are_never_tried_again_whatever_the_reason() -> None:
    memory = StartMemory([failed("the engine hung at load", block_size=64)])
    assert "failed before" in (memory.against({**BASE, "block_size": 64}, BASE) or "")
    assert memory.against({**BASE, "block_size": 32}, BASE) is None


@given(share=shares, budget=budgets, more=st.floats(0.0, 0.2), room=budgets)
def test_whoever_wants_more_memory_than_one_that_ran_out_of_it_is_not_tried(
    share: float, budget: int, more: float, room: int
) -> None:
    memory = StartMemory([failed(gpu_memory_utilization=share, batch_max_tokens=budget)])
    asked = {**BASE, "gpu_memory_utilization": share + more, "batch_max_tokens": max(budget, room)}
    assert memory.risk(asked) > MOST_RISK


@given(low=shares, high=shares, failures=st.lists(shares, max_size=4), good=st.lists(shares, max_size=4))
def test_risk_never_falls_with_the_memory_asked_for(
    low: float, high: float, failures: list[float], good: list[float]
) -> None:
    starts = [failed(gpu_memory_utilization=x) for x in failures] + [
        served(gpu_memory_utilization=x) for x in good
    ]
    memory = StartMemory(starts)
    low, high = min(low, high), max(low, high)
    assert memory.risk({**BASE, "gpu_memory_utilization": low}) <= memory.risk(
        {**BASE, "gpu_memory_utilization": high}
    )


def test_a_crash_that_is_no_lack_of_memory_says_nothing_of_other_settings() -> None:
    memory = StartMemory([failed("unrecognized arguments", gpu_memory_utilization=0.8)])
    assert memory.risk({**BASE, "gpu_memory_utilization": 0.95}) < MOST_RISK


def test_another_parallel_shape_is_another_memory_plan() -> None:
    memory = StartMemory([failed(tensor_parallel_size=4)])
    assert memory.risk({**BASE, "tensor_parallel_size": 8}) < MOST_RISK


def test_a_knob_that_took_no_hold_is_marked_and_its_other_values_are_not_tried() -> None:
    memory = StartMemory([Start({**BASE, "block_size": 64}, BASE, "served")])
    assert str(memory.marks["block_size"]) == "block_size 64 was asked for and the engine has 128"
    assert "its other values are not tried" in (memory.against({**BASE, "block_size": 32}, BASE) or "")
    assert memory.against({**BASE, "max_num_seqs": 128}, BASE) is None


def test_what_the_engine_says_nothing_of_is_not_held_against_it() -> None:
    assert unlike({"block_size": 64, "async_scheduling": True}, {"block_size": 64.0}) == []


def test_a_lack_of_memory_at_what_serves_elsewhere_does_not_veto_everything() -> None:
    memory = StartMemory([failed(block_size=64), served()])
    assert memory.against({**BASE, "block_size": 32}, BASE) is None
    assert memory.against({**BASE, "batch_max_tokens": 8192}, BASE) is None
    again = StartMemory([served(), *(failed(block_size=size) for size in (8, 16, 64, 256))])
    assert again.risk({**BASE, "block_size": 32}) > MOST_RISK


@pytest.mark.parametrize(("free", "learned"), [(3.1, False), (20.0, False), (28.6, True)])
def test_a_card_that_others_held_says_nothing_of_the_settings(free: float, learned: bool) -> None:
    reason = f"Free memory on device ({free}/29.5 GiB) on startup is less than desired NPU memory utilization (0.98)"
    memory = StartMemory([failed(reason, gpu_memory_utilization=0.98)])
    assert (memory.failed({**BASE, "gpu_memory_utilization": 0.98}) is not None) == learned
    assert (memory.risk({**BASE, "gpu_memory_utilization": 0.99}) > MOST_RISK) == learned


def test_memory_that_the_engine_before_did_not_give_back_says_nothing_of_the_settings() -> None:
    memory = StartMemory([failed("3.0 GiB of npu0 are not back, held by nobody that is seen", block_size=64)])
    assert memory.against({**BASE, "block_size": 64}, BASE) is None


@pytest.mark.parametrize(("reserved", "learned"), [(28.39, False), (58.39, True)])
def test_the_allocators_figures_tell_whether_others_had_the_card(reserved: float, learned: bool) -> None:
    reason = (
        "npu_out_of_memory: NPU out of memory. Tried to allocate 72.00 MiB (NPU 0; 61.27 GiB total capacity; "
        f"26.05 GiB already allocated; 26.05 GiB current active; 5.04 MiB free; {reserved} GiB reserved in total)"
    )
    memory = StartMemory([failed(reason, gpu_memory_utilization=0.92)])
    assert (memory.risk({**BASE, "gpu_memory_utilization": 0.95}) > MOST_RISK) == learned
