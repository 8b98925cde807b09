"""One clock for engine, traffic and cards: the same seed gives the same life, whoever looks on."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.node import Node

START = 1_700_000_000.0


def life(node: Node) -> tuple[object, ...]:
    return (
        node.now,
        node.completed,
        node.running,
        node.waiting,
        node.kv_usage,
        node.temperature_celsius,
        node.control.page(0),
        node.metrics_text(),
        node.npu_smi_info(),
    )


@settings(max_examples=10, deadline=None)
@given(st.lists(st.floats(0.01, 20.0), max_size=8))
def test_any_slicing_and_any_looking_gives_the_same_life(slices: list[float]) -> None:
    sliced, whole = Node("default", 111, START), Node("default", 111, START)
    for seconds in slices:
        sliced.advance(sliced.now + seconds)
        sliced.control.read_state()
        sliced.metrics_text()
    end = START + 180.0
    sliced.advance(end)
    whole.advance(end)
    assert life(sliced) == life(whole)


def test_the_same_seed_gives_the_same_arrivals_whatever_the_knobs() -> None:
    left, changed = Node("default", 111, START), Node("default", 111, START)
    changed.control.apply({"max_prefill_tokens": 300}, if_epoch=0, lease_seconds=None)
    for node in (left, changed):
        node.advance(START + 120.0)
    first, second = (
        {
            (r.arrival, r.prompt_tokens, r.output_tokens)
            for r in node.control.page(0).records
            if r.arrival < START + 90
        }
        for node in (left, changed)
    )
    assert first == second
    assert left.control.page(0).gaps != changed.control.page(0).gaps


def test_cards_warm_up_with_a_lag_and_cool_down_when_the_engine_is_gone() -> None:
    node = Node("default", 111, START)
    cold = node.temperature_celsius
    node.advance(START + 5.0)
    soon = node.temperature_celsius
    node.advance(START + 300.0)
    warm = node.temperature_celsius
    assert cold < soon < cold + 0.5 * (warm - cold)
    assert 45.0 < warm < 85.0
    node.restart(down_seconds=300.0)
    node.advance(node.now + 290.0)
    assert node.temperature_celsius == pytest.approx(cold, abs=1.0)
    assert node.cards[0].watts == pytest.approx(92.0)


def test_a_clients_request_is_served_among_the_others() -> None:
    node = Node("default", 111, START)
    node.advance(START + 30.0)
    request = node.submit(256, 40)
    node.advance(node.now + 30.0)
    assert request.finish is not None
    assert node.engine.generated(request) == 40
    record = next(r for r in node.control.page(0).records if r.arrival == request.arrival)
    assert (record.prompt_tokens, record.output_tokens) == (256, 40)


def test_an_hour_costs_little_of_the_processors_time() -> None:
    node = Node("default", 111, START)
    node.advance(START + 10.0)
    began = time.process_time()
    node.advance(START + 910.0)
    assert 900.0 / (time.process_time() - began) > 1500.0, "simulated seconds per second of CPU"
