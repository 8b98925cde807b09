"""Finished requests and token gaps, as the ring makes them of vLLM's statistics."""

from __future__ import annotations

import types
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trimtab_plugin import ring as ring_module
from trimtab_plugin.ring import EpochLog, Ring, gap_bucket

from change import engine as port


def finished(e2e: float, decode: float, **more: Any) -> types.SimpleNamespace:
    values: dict[str, Any] = {
        "finish_reason": "length",
        "e2e_latency": e2e,
        "decode_time": decode,
        "prefill_time": 0.1,
        "queued_time": 0.01,
        "num_prompt_tokens": 512,
        "num_generation_tokens": 17,
        "num_cached_tokens": 128,
        "num_preemptions": 1,
    }
    return types.SimpleNamespace(**{**values, **more})


def output(
    now: float,
    first: list[float] | None = None,
    gaps: list[float] | None = None,
    done: list[Any] | None = None,
) -> types.SimpleNamespace:
    return types.SimpleNamespace(
        iteration_timestamp=now,
        time_to_first_tokens_iter=first or [],
        inter_token_latencies_iter=gaps or [],
        finished_requests=done or [],
    )


def ring_with(*epochs: tuple[int, float]) -> Ring:
    ring = Ring()
    ring.epochs.learn(epochs or [(1, 0.0)], 0.0)
    return ring


def test_the_buckets_are_those_of_the_port() -> None:
    assert (ring_module.GAP_BASE_SECONDS, ring_module.GAP_RATIO, ring_module.GAP_BUCKETS) == (
        port.GAP_BASE_SECONDS,
        port.GAP_RATIO,
        port.GAP_BUCKETS,
    )


@given(st.floats(0, 1e4))
def test_a_gap_is_in_its_bucket(gap: float) -> None:
    bucket = gap_bucket(gap)
    low = port.GAP_BASE_SECONDS * port.GAP_RATIO**bucket
    assert 0 <= bucket < port.GAP_BUCKETS
    assert bucket == 0 or gap >= low * (1 - 1e-9)
    assert bucket == port.GAP_BUCKETS - 1 or gap <= low * port.GAP_RATIO * (1 + 1e-9)


def test_a_record_holds_what_the_engine_said() -> None:
    arrival, first, finish = 1_795_962_304.801864, 1_795_962_304.9248793, 1_795_962_305.3676255
    ring = ring_with((1, arrival - 5), (2, arrival + 0.01), (3, first + 0.01))
    ring.record(output(first, first=[first - arrival]))
    ring.record(output(finish, done=[finished(finish - arrival, 0.44)]))
    ring.flush(finish)
    [record] = ring.page(0)["records"]
    assert record == {
        "seq": 1,
        "arrival": arrival,
        "first_token": first,
        "finish": finish,
        "epoch_arrival": 1,
        "epoch_first_token": 2,
        "epoch_finish": 3,
        "prompt_tokens": 512,
        "output_tokens": 17,
        "cached_tokens": 128,
        "queued_seconds": 0.01,
        "prefill_seconds": 0.1,
        "decode_seconds": 0.44,
        "preemptions": 1,
        "reason": "length",
    }


@given(
    arrivals=st.lists(st.floats(1.7e9, 1.9e9), min_size=1, max_size=30),
    ttft=st.floats(1e-4, 100),
    decode=st.floats(0, 100),
)
def test_the_first_token_is_found_again_to_the_last_bit(
    arrivals: list[float], ttft: float, decode: float
) -> None:
    ring = ring_with()
    firsts = [arrival + ttft for arrival in arrivals]
    for arrival, first in zip(arrivals, firsts, strict=True):
        ring.record(output(first, first=[first - arrival]))
    for arrival, first in zip(arrivals, firsts, strict=True):
        now = first + decode
        ring.record(output(now, done=[finished(now - arrival, decode)]))
    ring.flush(float("inf"))
    assert [record["first_token"] for record in ring.page(0)["records"]] == firsts


def test_choices_of_one_call_keep_their_own_first_tokens() -> None:
    ring = ring_with()
    ring.record(output(101.0, first=[1.0]))
    ring.record(output(102.0, first=[2.0]))
    ring.record(output(105.0, done=[finished(5.0, 3.0), finished(5.0, 4.0)]))
    ring.flush(200.0)
    assert [record["first_token"] for record in ring.page(0)["records"]] == [102.0, 101.0]


def test_a_request_without_tokens_has_no_first_token() -> None:
    ring = ring_with()
    ring.record(output(100.0, done=[finished(1.0, 0.0, num_generation_tokens=0, queued_time=-3.0)]))
    ring.flush(200.0)
    [record] = ring.page(0)["records"]
    assert (record["first_token"], record["epoch_first_token"], record["queued_seconds"]) == (None, None, 0.0)


def test_gaps_count_in_the_epoch_of_their_token() -> None:
    ring = ring_with((1, 0.0), (2, 100.0))
    ring.record(output(99.0, gaps=[0.02, 0.02]))
    ring.record(output(100.5, gaps=[0.02, 5.0]))
    ring.flush(200.0)
    bucket = str(gap_bucket(0.02))
    assert ring.page(0)["gaps"] == {"1": {bucket: 2}, "2": {bucket: 1, str(gap_bucket(5.0)): 1}}


def test_what_is_newer_than_the_known_epochs_waits() -> None:
    ring = ring_with((1, 0.0))
    ring.record(output(99.0, gaps=[0.02]))
    ring.record(output(101.0, gaps=[0.02]))
    ring.flush(100.0)
    assert list(ring.page(0)["gaps"]) == ["1"]
    ring.epochs.learn([(1, 0.0), (2, 100.5)], 102.0)
    ring.flush(ring.epochs.known_until)
    assert list(ring.page(0)["gaps"]) == ["1", "2"]


def test_a_reader_gets_each_record_once_and_is_told_what_it_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring_module, "RING_RECORDS", 50)
    monkeypatch.setattr(ring_module, "PAGE_RECORDS", 20)
    ring = ring_with()
    for number in range(70):
        ring.record(output(100.0 + number, done=[finished(1.0, 0.5)]))
    ring.flush(1000.0)
    since, seen = 0, []
    lost = ring.page(since)["lost"]
    while (page := ring.page(since))["records"]:
        seen += [record["seq"] for record in page["records"]]
        since = page["next_since"]
    assert lost == 20
    assert seen == list(range(21, 71))
    assert (ring.page(70)["records"], ring.page(70)["next_since"], ring.page(70)["lost"]) == ([], 70, 0)


def test_a_reader_of_an_earlier_engine_starts_again() -> None:
    page = ring_with().page(5000)
    assert (page["next_since"], page["lost"], page["records"]) == (0, 0, [])


def test_nobody_reading_costs_bounded_memory() -> None:
    ring = ring_with()
    for number in range(3 * ring_module.PENDING_OUTPUTS):
        ring.record(output(float(number), first=[0.5], gaps=[0.02]))
    assert len(ring._pending) <= ring_module.PENDING_OUTPUTS
    ring.flush(float("inf"))
    assert sum(ring.page(0)["gaps"]["1"].values()) == 3 * ring_module.PENDING_OUTPUTS


def test_only_recent_epochs_keep_their_histograms() -> None:
    ring = ring_with(*((epoch, epoch * 10.0) for epoch in range(1, 101)))
    for epoch in range(1, 101):
        ring.record(output(epoch * 10.0 + 1, gaps=[0.02]))
    ring.flush(float("inf"))
    kept = [int(epoch) for epoch in ring.page(0)["gaps"]]
    assert kept == list(range(101 - ring_module.EPOCHS_KEPT, 101))


def test_an_epoch_log_answers_for_the_time_before_it_began() -> None:
    log = EpochLog()
    assert log.at(10.0) == 0
    log.learn([(7, 100.0), (8, 200.0)], 250.0)
    log.learn([(8, 200.0), (9, 300.0)], 240.0)
    assert [log.at(t) for t in (50.0, 100.0, 199.9, 200.0, 1e9)] == [7, 7, 7, 8, 9]
    assert log.known_until == 250.0
