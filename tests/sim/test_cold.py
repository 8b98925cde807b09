"""Start-up settings of the simulated engine, and the users of a closed loop."""

from __future__ import annotations

import pytest

from change.engine import Values
from change.server import Settings
from sim.cold_story import CLIENTS, GUIDE, GUIDE_HOT, HONOURED
from sim.node import Node
from sim.scenario import SCENARIOS
from sim.truth import simulate
from tuner.settings import Slo
from tuner.window import Interval, measure

START = 1_700_000_000.0
SECONDS = 300.0


def tokens_per_second(hot: Values, settings: Settings) -> float:
    page = simulate("guide-235b-plain", 1, hot, SECONDS, settings=settings)
    interval = Interval(1, 0.0, 20.0, 20.0 + SECONDS)
    return measure(page.records, page.gaps[1], interval, Slo())["output_tokens_per_second"]


def test_a_closed_loop_never_holds_more_users_than_there_are_and_always_a_queue() -> None:
    node = Node("guide-235b", 3, START)
    node.advance(START + 60.0)
    for _ in range(30):
        node.advance(node.now + 10.0)
        assert node.running + node.waiting <= CLIENTS
        assert node.waiting >= 1


def test_users_who_were_refused_or_lost_come_again() -> None:
    for patient in (False, True):
        node = Node("guide-235b", 3, START)
        node.advance(START + 60.0)
        node.restart(down_seconds=100.0, patient=patient)
        node.advance(node.now + 200.0)
        assert node.running + node.waiting > CLIENTS / 2
        done = node.completed
        node.advance(node.now + 60.0)
        assert node.completed > done


def test_patient_users_lose_nothing_while_the_server_is_down() -> None:
    node = Node("default", 3, START)
    node.advance(START + 30.0)
    lost = len(node.engine.waiting) + len(node.engine.running)
    node.restart(down_seconds=120.0, patient=True)
    node.advance(node.now + 600.0)
    assert node.failed_requests == lost


def test_a_restart_changes_blocks_ceilings_and_what_the_page_says() -> None:
    node = Node("guide-235b", 3, START)
    blocks = node.engine.physics.kv_blocks
    assert 'block_size="128"' in node.metrics_text()
    settings = {**HONOURED.launch, "block_size": 64, "batch_max_tokens": 8192}
    node.restart({"batch_max_tokens": 8192}, down_seconds=10.0, cold=settings, patient=True)
    node.advance(node.now + 20.0)
    state = node.control.read_state()
    assert state.ceilings["batch_max_tokens"] == state.ceilings["max_prefill_tokens"] == 8192
    assert state.values["batch_max_tokens"] == 8192
    assert node.engine.physics.kv_blocks == 2 * blocks
    assert 'block_size="64"' in node.metrics_text()


def test_no_two_starts_are_equally_fast_and_the_same_seed_has_the_same_ones() -> None:
    def speeds(seed: int) -> list[float]:
        node = Node("guide-235b", seed, START)
        found = [node.engine.physics.weight_read_seconds]
        for _ in range(3):
            node.restart(down_seconds=1.0)
            node.advance(node.now + 2.0)
            found.append(node.engine.physics.weight_read_seconds)
        return found

    assert len(set(speeds(4))) == 4
    assert speeds(4) == speeds(4) != speeds(5)


def test_the_guides_own_values_gain_what_it_tells_and_nothing_beside_them_is_better() -> None:
    start = tokens_per_second({}, {})
    guide = tokens_per_second(GUIDE_HOT, GUIDE)
    assert guide / start == pytest.approx(1.785, abs=0.06)
    for settings in (
        {"block_size": 32},
        {"block_size": 128},
        {"pipeline_parallel_size": 2, "tensor_parallel_size": 2},
    ):
        assert tokens_per_second(GUIDE_HOT, {**GUIDE, **settings}) < guide
    for cap in (0, 256, 1024):
        assert tokens_per_second({**GUIDE_HOT, "max_prefill_tokens": cap}, GUIDE) < guide


def test_ascend_forces_blocks_of_128_and_says_what_came_after_swap_space() -> None:
    side = SCENARIOS["clamped"].cold
    assert side is not None
    assert side.effective({**side.launch, "block_size": 64})["block_size"] == 128
    (problem,) = side.problems({"swap_space": 4})
    assert "gone since 0.18.0" in problem and "kv-transfer-config" in problem


def test_more_cards_than_there_are_cannot_be_asked_for() -> None:
    assert HONOURED.problems({"tensor_parallel_size": 4, "pipeline_parallel_size": 2})
    assert not HONOURED.problems({"tensor_parallel_size": 2, "pipeline_parallel_size": 2})
