"""The engine model schedules as vLLM does, loses nothing, and lives the same life however it is sliced."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from change.engine import GAP_BASE_SECONDS, GAP_RATIO, Values
from sim.engine import Engine
from sim.physics import Jitter
from sim.queue import ORDERS, Order
from sim.scenario import LAUNCH, serve
from sim.traffic import Arrivals, Traffic
from tests.sim.laboratory import audit, engine
from tests.sim.plain_scheduler import Arrival
from tests.sim.plain_scheduler import serve as serve_plainly


class Given(Traffic):
    """These arrivals and no others."""

    clients = 0

    def __init__(self, arrivals: list[Arrival]) -> None:
        self._given = arrivals

    def chunk(self) -> tuple[list[float], list[int], list[int], list[int]]:
        given, self._given = self._given, [(math.inf, 1, 1)]
        times, prompts, outputs = zip(*given, strict=True)
        return list(times), list(prompts), list(outputs), [0] * len(given)


def busy_hour(seed: int, count: int = 120, rate: float = 8.0) -> list[Arrival]:
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.exponential(1 / rate, count))
    prompts = rng.choice([128, 512, 1024, 77, 300], count)
    outputs = rng.integers(1, 120, count)
    return list(zip(times.tolist(), prompts.tolist(), outputs.tolist(), strict=True))


CONFIGS: dict[str, Values] = {
    "launch": {},
    "a prefill cap": {"max_prefill_tokens": 200},
    "a cap for long prompts": {"max_prefill_tokens": 512, "long_prefill_tokens": 96},
    "few sequences": {"max_num_seqs": 9, "batch_max_tokens": 256},
    "a watermark": {"watermark": 0.2},
    "everything": {
        "batch_max_tokens": 384,
        "max_prefill_tokens": 160,
        "long_prefill_tokens": 64,
        "max_num_seqs": 14,
        "watermark": 0.1,
    },
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("blocks", [400, 60])
@pytest.mark.parametrize("config", CONFIGS)
def test_it_does_what_a_plain_token_by_token_scheduler_does(config: str, blocks: int, order: Order) -> None:
    arrivals = busy_hour(seed=len(config) + blocks)
    fast = engine(blocks, CONFIGS[config])
    fast = Engine(fast.physics, Given(arrivals), Jitter(fast.physics, None), start=0.0, order=order)
    serve(fast, {**LAUNCH, **CONFIGS[config]})
    plain, steps = serve_plainly(fast.physics, {**LAUNCH, **CONFIGS[config]}, arrivals, order)
    fast.run(3600.0)

    rows = sorted(fast.ring, key=lambda row: row[1])
    assert len(rows) == len(plain) == len(arrivals)
    for row, request in zip(rows, plain, strict=True):
        assert row[1] == request.arrival
        assert row[2] == pytest.approx(request.tokens[0], abs=1e-6)
        assert row[3] == pytest.approx(request.tokens[-1], abs=1e-6)
        assert row[13] == request.preemptions
    assert fast.steps == len(steps)
    assert fast.iteration_sum == sum(prefill + decodes for prefill, decodes in steps)
    gaps = [b - a for request in plain for a, b in pairwise(request.tokens)]
    assert sum(fast.itl_counts) == len(gaps) == sum(fast.gaps[0])
    assert fast.itl_sum == pytest.approx(sum(gaps))
    if blocks == 60 and config in ("launch", "a prefill cap"):
        assert fast.preemptions > 0, "this memory is too small for the batch"


def test_gaps_fall_into_their_log_buckets() -> None:
    alone = engine()
    alone.submit(0.0, 128, 40)
    alone.run(60.0)
    (row,) = alone.ring
    mean = row[12] / 39
    counted = {bucket: count for bucket, count in enumerate(alone.gaps[0]) if count}
    assert sum(counted.values()) == 39
    low, high = min(counted), max(counted)
    assert GAP_BASE_SECONDS * GAP_RATIO**low <= mean < GAP_BASE_SECONDS * GAP_RATIO ** (high + 1)


def test_a_step_never_prefills_above_the_cap_but_for_its_decodes() -> None:
    capped = engine(400, {"max_prefill_tokens": 128})
    for _ in range(4):
        capped.submit(0.0, 1024, 30)
    capped.run(0.5)
    capped.run(30.0)
    assert capped.completed == 4
    # 4 x 1024 tokens in chunks of 128 are 32 steps at least; vLLM's bounds tell no finer than 256.
    assert sum(capped.iteration_counts[7:]) == 0
    assert capped.steps >= 32


def test_a_long_prompt_alone_is_not_cut_short() -> None:
    alone, two = engine(400, {"long_prefill_tokens": 64}), engine(400, {"long_prefill_tokens": 64})
    alone.submit(0.0, 1024, 1)
    two.submit(0.0, 1024, 1)
    two.submit(0.0, 128, 1)
    alone.run(10.0)
    two.run(10.0)
    assert alone.steps == 1
    assert two.steps > 2


def test_a_lowered_running_cap_drains_and_kills_nobody() -> None:
    lowered = engine(400)
    for _ in range(12):
        lowered.submit(0.0, 128, 100)
    lowered.run(1.0)
    assert len(lowered.running) == 12
    serve(lowered, {**LAUNCH, "max_num_seqs": 2})
    for _ in range(3):
        lowered.submit(1.0, 128, 10)
    lowered.run(2.0)
    assert (len(lowered.running), len(lowered.waiting)) == (12, 3)
    lowered.run(60.0)
    assert lowered.completed == 15
    audit(lowered)


def test_a_preempted_request_comes_back_first_and_keeps_its_tokens() -> None:
    tight = engine(kv_blocks=12)
    for _ in range(3):
        tight.submit(0.0, 384, 250)
    tight.run(300.0)
    audit(tight)
    assert tight.preemptions > 0
    assert [row[8] for row in tight.ring] == [250] * 3
    assert tight.generation_tokens == 750
    assert max(row[13] for row in tight.ring) >= 1


SLICES = st.lists(st.floats(0.001, 7.0), min_size=1, max_size=12)


def lived(slices: list[float], kv_blocks: int) -> tuple[object, ...]:
    physics = engine(kv_blocks).physics
    busy = Engine(
        physics,
        Traffic(Arrivals(7.0), np.random.default_rng(3), 0.0),
        Jitter(physics, np.random.default_rng(4)),
        start=0.0,
    )
    serve(busy, LAUNCH)
    now = 0.0
    for seconds in slices:
        now += seconds
        busy.run(now)
        audit(busy)
    busy.run(90.0)
    audit(busy)
    return (
        tuple(busy.ring),
        tuple(busy.gaps[0]),
        busy.steps,
        busy.itl_sum,
        busy.busy_seconds,
        busy.computed_tokens,
        tuple(busy.iteration_counts),
        len(busy.waiting),
        busy.free_blocks,
    )


@settings(max_examples=12, deadline=None)
@given(SLICES, st.sampled_from([90, 300]))
def test_any_slicing_of_time_gives_the_same_life(slices: list[float], kv_blocks: int) -> None:
    assert lived(slices, kv_blocks) == lived([], kv_blocks)


KNOBS = st.fixed_dictionaries(
    {
        "batch_max_tokens": st.sampled_from([64, 256, 1024, 8192]),
        "max_prefill_tokens": st.sampled_from([0, 16, 128, 4096]),
        "long_prefill_tokens": st.sampled_from([0, 16, 256]),
        "max_num_seqs": st.sampled_from([1, 5, 40, 64]),
        "watermark": st.sampled_from([0.0, 0.1, 0.5]),
    }
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.floats(0.01, 3.0), KNOBS), min_size=1, max_size=8), st.sampled_from([40, 120]))
def test_nothing_is_lost_under_any_sequence_of_knobs(
    changes: list[tuple[float, dict[str, float]]], kv_blocks: int
) -> None:
    physics = engine(kv_blocks).physics
    busy = Engine(
        physics,
        Traffic(Arrivals(12.0), np.random.default_rng(9), 0.0),
        Jitter(physics, np.random.default_rng(8)),
        start=0.0,
    )
    serve(busy, LAUNCH)
    now = 0.0
    for seconds, values in changes:
        now += seconds
        busy.run(now)
        serve(busy, values)
        audit(busy)
    # Whatever was asked, the launch values bring everybody through once nobody else comes.
    serve(busy, LAUNCH)
    busy._traffic = None
    busy._times, busy._next_arrival = [], math.inf
    busy.run(now + 600.0)
    audit(busy)
    assert not busy.running
    assert not busy.waiting
    assert busy.completed == busy.arrived
    assert all(row[2] is not None and row[1] <= row[2] <= row[3] for row in busy.ring)
