"""What the simulated hand does beyond the contract of every hand: draining, clamping, the gate, restarts, the ring."""

from __future__ import annotations

import pytest

from change.engine import EngineError, EngineUnreachable
from sim.node import Node

START = 1_700_000_000.0


def node(scenario: str = "default", seconds: float = 30.0) -> Node:
    built = Node(scenario, 103, START)
    built.advance(START + seconds)
    return built


def test_lowering_the_running_cap_under_what_runs_is_draining() -> None:
    busy = node()
    assert busy.running > 2
    answer = busy.control.apply({"max_num_seqs": 2}, if_epoch=0, lease_seconds=None)
    assert answer.status == "draining"
    assert answer.effective == {"max_num_seqs": 2}
    assert answer.reason is not None
    assert "run" in answer.reason


@pytest.mark.parametrize(
    "values",
    [
        {"batch_max_tokens": 128},
        {"max_prefill_tokens": 8},
        {"long_prefill_tokens": 9000},
        {"watermark": 0.6},
        {"watermark": float("nan")},
        {"max_num_seqs": 0},
        {"max_num_seqs": True},
    ],
)
def test_what_cannot_serve_is_refused_with_its_bounds(values: dict[str, float]) -> None:
    idle = node()
    before = idle.control.read_state()
    with pytest.raises(EngineError, match=next(iter(values))):
        idle.control.apply(values, if_epoch=0, lease_seconds=None)
    assert idle.control.read_state() == before


def test_the_token_budget_may_go_below_256_once_fewer_sequences_run() -> None:
    idle = node()
    idle.control.apply({"batch_max_tokens": 64, "max_num_seqs": 40}, if_epoch=0, lease_seconds=None)
    state = idle.control.read_state()
    assert state.values["batch_max_tokens"] == 64
    assert state.floors["batch_max_tokens"] == 40


def test_an_engine_that_clamps_says_what_it_made_of_the_value() -> None:
    clamping = node("clamped")
    answer = clamping.control.apply({"max_prefill_tokens": 256}, if_epoch=0, lease_seconds=None)
    assert answer.requested == {"max_prefill_tokens": 256}
    assert answer.effective == {"max_prefill_tokens": 1024}
    assert clamping.control.read_state().values["max_prefill_tokens"] == 1024


def test_a_change_under_a_lease_keeps_the_first_way_back() -> None:
    leased = node()
    first = leased.control.apply({"max_prefill_tokens": 256}, if_epoch=0, lease_seconds=5)
    leased.control.apply({"max_prefill_tokens": 512}, if_epoch=first.epoch, lease_seconds=5)
    leased.advance(leased.now + 30.0)
    state = leased.control.read_state()
    assert state.values["max_prefill_tokens"] == 0
    assert state.epoch == 3


def test_a_lease_runs_out_by_itself_under_load_and_nobody_need_ask() -> None:
    leased = node()
    leased.control.apply({"max_prefill_tokens": 64}, if_epoch=0, lease_seconds=5)
    leased.advance(leased.now + 60.0)
    page = leased.control.page(leased.completed - 20)
    assert {record.epoch_arrival for record in page.records} == {2}


def test_times_count_in_the_epoch_in_which_they_happen() -> None:
    switched = node(seconds=60.0)
    at = switched.now
    switched.control.apply({"max_prefill_tokens": 300}, if_epoch=0, lease_seconds=None)
    switched.advance(at + 60.0)
    records = [
        r for since in range(0, switched.completed, 1000) for r in switched.control.page(since).records
    ]
    for record in records:
        assert record.first_token is not None
        assert record.epoch_arrival == int(record.arrival > at)
        assert record.epoch_first_token == int(record.first_token > at)
        assert record.epoch_finish == int(record.finish > at)
    assert {(r.epoch_arrival, r.epoch_finish) for r in records} == {(0, 0), (0, 1), (1, 1)}


def test_a_closed_gate_keeps_requests_out_and_their_clients_come_again() -> None:
    gated = node(seconds=60.0)
    arrived = gated.engine.arrived
    gated.control.set_gate("closed", lease_seconds=20.0, retry_after=3.0)
    gated.advance(gated.now + 15.0)
    assert gated.control.read_state().gate == "closed"
    assert gated.engine.arrived == arrived
    assert gated.engine.rejected > 50
    gated.advance(gated.now + 60.0)
    assert gated.control.read_state().gate == "open"
    open_twin = node(seconds=135.0)
    assert gated.engine.arrived == pytest.approx(open_twin.engine.arrived, abs=10), "nobody stays away"
    assert gated.failed_requests == 0


def test_a_restart_loses_what_is_inside_and_comes_back_fresh() -> None:
    restarted = node(seconds=60.0)
    before = restarted.control.read_state()
    restarted.control.apply({"max_prefill_tokens": 256}, if_epoch=0, lease_seconds=None)
    inside = restarted.running + restarted.waiting
    restarted.restart({"batch_max_tokens": 4096}, down_seconds=30.0)
    assert restarted.failed_requests == inside > 0
    with pytest.raises(EngineUnreachable):
        restarted.control.read_state()
    restarted.advance(restarted.now + 31.0)
    after = restarted.control.read_state()
    assert restarted.failed_requests > inside, "requests came while it was down"
    assert after.boot_id != before.boot_id
    assert after.epoch == 0
    assert after.values == {**before.values, "batch_max_tokens": 4096}
    assert after.ceilings["batch_max_tokens"] == 4096
    restarted.advance(restarted.now + 60.0)
    page = restarted.control.page(0)
    assert page.records[0].seq == 1
    assert page.lost == 0


def test_pages_are_of_a_thousand_and_a_full_ring_counts_what_it_lost() -> None:
    long_lived = node(seconds=8000.0)
    assert long_lived.completed > 16384
    page = long_lived.control.page(0)
    assert page.lost == long_lived.completed - 16384
    assert len(page.records) == 1000
    assert page.records[0].seq == page.lost + 1
    assert page.next_since == page.records[-1].seq
    tail = long_lived.control.page(long_lived.completed - 3)
    assert [r.seq for r in tail.records] == [long_lived.completed - 2 + i for i in range(3)]
    beyond = long_lived.control.page(10**9)
    assert (beyond.records, beyond.next_since) == ((), long_lived.completed)


def test_gaps_of_64_epochs_are_kept() -> None:
    switched = node()
    for epoch in range(70):
        switched.control.apply({"max_prefill_tokens": 256 + epoch}, if_epoch=epoch, lease_seconds=None)
        switched.advance(switched.now + 0.5)
    gaps = switched.control.page(0).gaps
    assert list(gaps) == list(range(7, 71))
    assert all(sum(counts.values()) > 0 for counts in gaps.values())
