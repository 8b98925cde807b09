"""Which knobs exist in a scheduler, their bounds, and how they are written and read back."""

from __future__ import annotations

import math
from typing import Any

import pytest
from trimtab_plugin.knobs import SchedulerKnobs

from tests.engine_plugin.fake_engine import FakeRequest, FakeScheduler


def config(knobs: SchedulerKnobs, **values: float) -> dict[str, float]:
    return {**knobs.launch, **values}


def test_launch_values_are_the_ceilings() -> None:
    knobs = SchedulerKnobs(FakeScheduler(batch=4096, seqs=32))
    assert knobs.launch == {
        "batch_max_tokens": 4096,
        "max_prefill_tokens": 0,
        "long_prefill_tokens": 0,
        "max_num_seqs": 32,
        "watermark": 0.0,
    }
    assert knobs.ceilings["batch_max_tokens"] == 4096
    assert knobs.ceilings["max_num_seqs"] == 32
    assert knobs.problems(config(knobs, batch_max_tokens=4097))
    assert knobs.problems(config(knobs, max_num_seqs=33))


def test_a_knob_that_this_version_lacks_is_unknown() -> None:
    knobs = SchedulerKnobs(FakeScheduler(watermark=None))
    assert "watermark" not in knobs.launch
    assert knobs.parse({"watermark": 0.1})[1] == [
        "unknown knob 'watermark': this engine has "
        "batch_max_tokens, max_prefill_tokens, long_prefill_tokens, max_num_seqs"
    ]


@pytest.mark.parametrize(
    ("scheduler", "floor"),
    [
        ({"seqs": 32}, 32),
        ({"seqs": 32, "spec": 3}, 128),
        ({"seqs": 2}, 16),
        ({"seqs": 2, "need_mamba_block_aligned_split": True}, 128),
        ({"seqs": 2, "chunked": False}, 2048),
        ({"seqs": 2, "num_prefill_lookahead": 20}, 41),
    ],
)
def test_the_token_budget_has_the_floor_that_keeps_requests_moving(
    scheduler: dict[str, Any], floor: int
) -> None:
    knobs = SchedulerKnobs(FakeScheduler(**scheduler))
    assert knobs.floors(knobs.launch)["batch_max_tokens"] == floor
    assert knobs.problems(config(knobs, batch_max_tokens=floor)) == []
    assert knobs.problems(config(knobs, batch_max_tokens=floor - 1))


def test_a_lower_running_cap_lowers_the_budget_floor_in_the_same_change() -> None:
    knobs = SchedulerKnobs(FakeScheduler(seqs=256))
    assert knobs.problems(config(knobs, batch_max_tokens=128)) == [
        "batch_max_tokens must be from 256 to 2048, not 128"
    ]
    assert knobs.problems(config(knobs, batch_max_tokens=128, max_num_seqs=128)) == []


def test_without_chunked_prefill_there_are_no_prefill_knobs() -> None:
    knobs = SchedulerKnobs(FakeScheduler(chunked=False))
    assert "max_prefill_tokens" not in knobs.launch
    assert "long_prefill_tokens" not in knobs.launch


def test_zero_switches_the_prefill_knobs_off() -> None:
    knobs = SchedulerKnobs(FakeScheduler())
    assert knobs.problems(config(knobs, max_prefill_tokens=0, long_prefill_tokens=0)) == []
    assert knobs.problems(config(knobs, max_prefill_tokens=1)) == [
        "max_prefill_tokens must be from 16 to 2048, or 0 for off, not 1"
    ]


def test_what_the_engine_was_started_with_can_always_be_set_again() -> None:
    knobs = SchedulerKnobs(FakeScheduler(batch=64, seqs=64, spec=3))
    assert knobs.floors(knobs.launch)["batch_max_tokens"] == 64
    assert knobs.problems(knobs.launch) == []


@pytest.mark.parametrize("value", [True, "128", None, [1], math.nan, math.inf, 128.5])
def test_a_value_of_another_kind_is_refused(value: Any) -> None:
    assert SchedulerKnobs(FakeScheduler()).parse({"batch_max_tokens": value})[1]


def test_a_whole_float_counts_as_a_whole_number() -> None:
    assert SchedulerKnobs(FakeScheduler()).parse({"batch_max_tokens": 256.0}) == (
        {"batch_max_tokens": 256},
        [],
    )


@pytest.mark.parametrize("ratchet", [True, False])
def test_writing_reaches_the_scheduler_and_never_the_shared_config(ratchet: bool) -> None:
    scheduler = FakeScheduler(ratchet=ratchet)
    knobs = SchedulerKnobs(scheduler)
    wanted = {
        "batch_max_tokens": 256,
        "max_prefill_tokens": 128,
        "long_prefill_tokens": 64,
        "max_num_seqs": 8,
        "watermark": 0.0333,
    }
    knobs.write(wanted)
    assert knobs.effective() == wanted
    assert scheduler.max_num_scheduled_tokens == 256
    assert scheduler.scheduler_config.long_prefill_token_threshold == 64
    assert scheduler.kv_cache_manager.watermark_blocks == 33
    assert (scheduler.max_num_running_reqs, getattr(scheduler, "max_num_active_reqs", None)) == (
        (8, None) if ratchet else (64, 8)
    )
    assert scheduler.scheduler_config.max_num_batched_tokens == 2048
    assert scheduler.scheduler_config.max_num_seqs == 64


def test_a_value_that_somebody_else_wrote_is_read_as_it_is() -> None:
    scheduler = FakeScheduler()
    knobs = SchedulerKnobs(scheduler)
    knobs.write(config(knobs, batch_max_tokens=256, max_num_seqs=8, watermark=0.1))
    scheduler.max_num_scheduled_tokens = 999
    scheduler.max_num_active_reqs = 7
    scheduler.kv_cache_manager.watermark_blocks = 50
    scheduler.scheduler_config.long_prefill_token_threshold = 11
    assert knobs.effective() == {
        "batch_max_tokens": 999,
        "max_prefill_tokens": 0,
        "long_prefill_tokens": 11,
        "max_num_seqs": 7,
        "watermark": 0.05,
    }


def test_a_step_under_a_prefill_cap_does_not_change_what_is_effective() -> None:
    scheduler = FakeScheduler()
    scheduler.running = [FakeRequest(1, 10, computed=1) for _ in range(5)]
    knobs = SchedulerKnobs(scheduler)
    knobs.write(config(knobs, max_prefill_tokens=128))
    knobs.before_step()
    assert scheduler.max_num_scheduled_tokens == 133
    assert knobs.effective() == config(knobs, max_prefill_tokens=128)


def test_speculative_tokens_of_running_requests_count_as_decode() -> None:
    scheduler = FakeScheduler(spec=3)
    scheduler.running = [FakeRequest(1, 10, computed=1, spec_token_ids=[-1] * 3) for _ in range(5)]
    knobs = SchedulerKnobs(scheduler)
    knobs.write(config(knobs, max_prefill_tokens=128))
    knobs.before_step()
    assert scheduler.max_num_scheduled_tokens == 5 * 4 + 128


def test_while_it_drains_the_budget_keeps_every_running_request_moving() -> None:
    scheduler = FakeScheduler(ratchet=True)
    scheduler.running = [FakeRequest(1, 10, computed=1) for _ in range(40)]
    knobs = SchedulerKnobs(scheduler)
    knobs.write(config(knobs, max_num_seqs=2, batch_max_tokens=16))
    assert knobs.draining
    knobs.before_step()
    assert scheduler.max_num_scheduled_tokens == 40
    assert scheduler.max_num_running_reqs == 40
