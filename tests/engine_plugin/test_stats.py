"""The stat logger entry point, with a stand-in for vLLM's base class."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest
from trimtab_plugin import ring as ring_module
from trimtab_plugin.ring import Ring


@pytest.fixture
def stats(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    loggers = types.ModuleType("vllm.v1.metrics.loggers")
    loggers.StatLoggerBase = object  # type: ignore[attr-defined]
    for name in ("vllm", "vllm.v1", "vllm.v1.metrics"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, "vllm.v1.metrics.loggers", loggers)
    monkeypatch.setattr(ring_module, "RING", Ring())
    monkeypatch.delitem(sys.modules, "trimtab_plugin.stats", raising=False)
    yield importlib.import_module("trimtab_plugin.stats")
    sys.modules.pop("trimtab_plugin.stats", None)


def output() -> types.SimpleNamespace:
    return types.SimpleNamespace(
        iteration_timestamp=1.0,
        time_to_first_tokens_iter=[],
        inter_token_latencies_iter=[0.02],
        finished_requests=[],
    )


def test_each_output_reaches_the_ring(stats: Any) -> None:
    logger = stats.RingLogger(None, 0)
    logger.record(None, None)
    logger.record(scheduler_stats=None, iteration_stats=output(), mm_cache_stats=None, engine_idx=0)
    logger.log_engine_initialized()
    assert stats.RING.attached
    stats.RING.flush(2.0)
    assert stats.RING.page(0)["gaps"] == {"0": {"108": 1}}


def test_switched_off_it_records_nothing(stats: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "disabled", lambda: True)
    stats.RingLogger(None).record(None, output())
    assert not stats.RING.attached
    stats.RING.flush(2.0)
    assert stats.RING.page(0)["gaps"] == {}


def test_statistics_of_another_shape_stop_the_recording_and_not_the_server(stats: Any) -> None:
    logger = stats.RingLogger(None)
    logger.record(None, types.SimpleNamespace(iteration_timestamp=1.0))
    logger.record(None, output())
    assert "time_to_first_tokens_iter" in stats.RING.problem
