"""The demo's cards are read through the same parsers as real ones."""

from __future__ import annotations

import asyncio

from collectors.history import History
from collectors.sample import Sample, labels
from daemon import live
from daemon.demo_page import DETAILS_SECONDS, NodeCards, demo_runner
from sim.node import Node

START = 1_700_000_000.0
OWN = labels(npu="0", chip="0", name="910B4")


def test_the_table_the_watch_and_the_types_are_shown_and_the_types_seldom_read() -> None:
    node = Node("default", 3, START)
    cards = NodeCards(node)

    def read(seconds: float) -> dict[str, Sample]:
        node.advance(START + seconds)
        return {one.name: one for one in asyncio.run(cards.collect(node.now)) if one.labels == OWN}

    first = read(10.0)
    names = {
        "npu_hbm_used_bytes",
        "npu_mem_bandwidth",
        "npu_vector_usage_ratio",
        "npu_aicore_frequency_hertz",
    }
    assert names <= set(first)
    assert {first[name].time for name in names} == {START + 10.0}
    second = read(12.0)
    assert second["npu_mem_bandwidth"].time == START + 12.0
    assert second["npu_vector_usage_ratio"].time == START + 10.0
    third = read(10.0 + DETAILS_SECONDS)
    assert third["npu_vector_usage_ratio"].time == START + 10.0 + DETAILS_SECONDS


def test_the_demo_says_what_its_engine_is_and_derives_figures() -> None:
    node, history = Node("default", 3, START), History()
    runner = demo_runner(node, history)

    async def some_minutes() -> None:
        for second in range(2, 302, 2):
            node.advance(START + second)
            await runner.once(node.now)

    asyncio.run(some_minutes())
    info = history.latest("trimtab_engine_info")
    assert info is not None and dict(info.labels)["kind"] == "vllm"
    named = {sign["name"]: sign["value"] for sign in live.signs(history)}
    assert 0.0 <= named["queue_share_ratio"] <= 1.0
    assert 0.0 <= named["kv_free_ratio"] <= 1.0
    assert all(health.success for health in runner.health())
