"""The 32B story tells the guide's figures, on development seeds, on both topologies."""

from __future__ import annotations

import asyncio

import pytest

from bench.host_ttft import STORIES, ladder, steps
from change.host import HostChange, HostError
from change.host_knobs import HOST_KNOBS
from sim.host_hand import found
from sim.host_story import HostStory
from sim.node import Node
from sim.scenario import SCENARIOS

GUIDE = {
    "as found": (250, 273, 0.72),
    "basic binding": (247, 268, 0.75),
    "NUMA": (230, 245, 0.83),
    "final": (223, 238, 0.87),
}


def story_of(scenario: str, seed: int = 101) -> HostStory:
    story = SCENARIOS[scenario].drawn(seed).host
    assert story is not None
    return story


@pytest.mark.parametrize("scenario", STORIES)
def test_the_guides_steps_have_the_guides_figures(scenario: str) -> None:
    seen = ladder(scenario, range(101, 107))
    for step, (mean, p99, computing) in GUIDE.items():
        assert seen[step][0] == pytest.approx(mean, rel=0.015), step
        assert seen[step][1] == pytest.approx(p99, rel=0.03), step
        assert seen[step][2] == pytest.approx(computing, abs=0.025), step
    assert 0.001 < (seen["as found"][0] - seen["whole processes"][0]) / 1e3 < 0.005


@pytest.mark.parametrize("scenario", STORIES)
def test_every_value_is_one_that_the_host_lane_knows(scenario: str) -> None:
    options = story_of(scenario).options
    assert set(options) == set(SCENARIOS[scenario].knobs)
    for name, texts in options.items():
        assert [HOST_KNOBS[name].problem(text) for text in texts] == [None] * len(texts)


@pytest.mark.parametrize("scenario", STORIES)
def test_cores_and_memory_belong_on_the_same_node(scenario: str) -> None:
    story = story_of(scenario)
    as_found = found(story)
    together = story.saved({**as_found, "placement": "split:4", "memory": "node:4"})
    for apart in (
        {"placement": "split:6", "memory": "node:4"},
        {"placement": "split:4"},
        {"memory": "node:4"},
        {"placement": "whole:4", "memory": "node:4"},
    ):
        assert story.saved({**as_found, **apart}) < 0.35 * together


def test_half_of_the_cards_are_near_on_the_second_topology() -> None:
    near, apart = story_of("ttft-32b"), story_of("ttft-32b-two-nodes")
    assert [near.topology.share(node) for node in (6, 4)] == [1.0, 0.0]
    assert [apart.topology.share(node) for node in (6, 4)] == [0.5, 0.5]
    on_4 = {"placement": "split:4", "memory": "node:4"}
    assert apart.saved({**found(apart), **on_4}) > near.saved({**found(near), **on_4})


def test_the_cards_compute_more_of_the_time_once_the_host_does_not_keep_them_waiting() -> None:
    async def story() -> tuple[float, float]:
        node = Node("ttft-32b", 101, 0.0)
        assert node.host is not None
        node.advance(120.0)
        before = node.cards[0].aicore / node.cards[0].spread
        for name, text in steps(story_of("ttft-32b").topology)["final"].items():
            await node.host.apply(HostChange(name, text))
        node.advance(240.0)
        return before, node.cards[0].aicore / node.cards[0].spread

    before, after = asyncio.run(story())
    assert before == pytest.approx(0.72, abs=0.03) and after == pytest.approx(0.87, abs=0.03)


def test_a_restart_of_the_engine_takes_its_placement_and_leaves_the_nodes_settings() -> None:
    async def story() -> dict[str, str]:
        node = Node("ttft-32b", 101, 0.0)
        assert node.host is not None
        await node.host.apply(HostChange("placement", "split:4"))
        await node.host.apply(HostChange("cpu_governor", "performance"))
        node.restart()
        return dict(node.host.values)

    values = asyncio.run(story())
    assert (values["placement"], values["cpu_governor"]) == ("as_found", "performance")


def test_the_hand_is_exact_and_names_what_it_does_not_have() -> None:
    async def story() -> None:
        node = Node("ttft-32b", 101, 0.0)
        host = node.host
        assert host is not None
        before = await host.read("placement")
        after = await host.apply(HostChange("placement", "split:4"))
        assert (await host.choices())["placement"][0] == after.value == "split:4"
        assert (await host.restore("placement", before.undo or {})).value == "as_found"
        for wrong in (HostChange("placement", "split:99"), HostChange("swappiness", "0")):
            with pytest.raises(HostError):
                await host.apply(wrong)

    asyncio.run(story())
