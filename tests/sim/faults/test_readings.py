"""What the sources say of a troubled replica follows from it, and is noisy as real readings are."""

from __future__ import annotations

from statistics import pstdev

import pytest

from collectors.history import History
from collectors.sample import CollectorError
from sim.faults import FaultName, TroubledNode, draw
from sim.faults.readings import ReplicaReadings

START = 1_800_000_000.0


def seen(name: FaultName, seed: int, after: float, every: float = 15.0) -> tuple[TroubledNode, History]:
    """A node and all that its sources gave until some time after the onset."""
    fault = draw(name, seed)
    node = TroubledNode(fault, seed, START)
    sources, history = ReplicaReadings(node), History()
    while node.now < START + fault.onset_seconds + after:
        node.advance(node.now + every)
        for source, (_, read) in sources.sources.items():
            try:
                history.add(read(node.now), source)
            except CollectorError:
                history.end(source)
    return node, history


def value(history: History, name: str, **labels: str) -> float:
    found = history.latest(name, tuple(sorted(labels.items())))
    assert found is not None
    assert isinstance(found.value, float)
    return found.value


def test_healthy_readings_are_never_the_same_twice_but_stay_where_they_are() -> None:
    _, history = seen("irq_storm", 102, -60.0)
    for name in ("npu_aicore_usage_ratio", "npu_hbm_used_bytes", "trimtab_engine_process_resident_bytes"):
        values = [reading for _, reading in history.range(name, START, START + 1e5)][5:]
        assert 0.0 < pstdev(values) < 0.15 * (sum(values) / len(values))


def test_a_storm_is_counted_off_the_cards_node() -> None:
    node, history = seen("irq_storm", 102, 300.0)
    assert node.fault is not None
    off = history.rate("npu_interrupts_off_node_total", node.now, 240.0)
    assert off is not None
    assert off == pytest.approx(node.fault.magnitude["per_second"], rel=0.05)
    assert value(history, "npu_interrupts_led_off_node", npu=str(node.fault.card)) > 0


def test_cores_under_another_governor_are_counted() -> None:
    node, history = seen("governor", 102, 120.0)
    assert node.fault is not None
    asleep = value(history, "trimtab_host_cpus_by_governor", governor=node.fault.variant)
    assert asleep / 192 == pytest.approx(node.fault.magnitude["cpus_share"], abs=0.01)


def test_threads_led_astray_are_seen_on_the_other_node() -> None:
    _, history = seen("numa", 102, 120.0)
    assert value(history, "trimtab_engine_threads_off_npu_node", process="Worker") > 0.5 * 180


def test_an_engine_that_is_gone_has_no_page() -> None:
    _, history = seen("dead_engine", 102, 60.0)
    assert history.latest("trimtab_engine_requests_running") is None
    assert history.latest("npu_temperature_celsius") is not None


def test_an_error_in_the_log_is_known_by_its_signature_and_figures() -> None:
    _, history = seen("oom_at_load", 102, 120.0)
    assert value(history, "trimtab_log_events_total", signature="npu_out_of_memory") >= 1.0
    assert value(history, "npu_out_of_memory_capacity_bytes") == 32 * 1024.0**3
