"""Faults act through the physics of the node: users feel them, readings show them, and what mends them does so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from change.host import HostChange
from rules.actions import Action, ActionRefused, Outcome
from sim.faults import FAULTS, FaultName, TroubledNode, draw
from sim.faults.hands import SimulatedHands
from sim.virtual_time import NodeClock, live

START = 1_800_000_000.0


def ill(
    name: FaultName, variant: str = "", after: float = 600.0, *, second_replica: bool = True
) -> TroubledNode:
    """A node some time after the onset of the first fault, of seeds 101 and on, that shows in this way."""
    fault = next(f for f in (draw(name, seed) for seed in range(101, 200)) if variant in ("", f.variant))
    node = TroubledNode(fault, fault.seed, START, second_replica=second_replica)
    node.advance(START + fault.onset_seconds + after)
    return node


def healthy(node: TroubledNode) -> TroubledNode:
    """The same replica at the same time, without its fault (and with users who know no night, as it has)."""
    assert node.fault is not None
    twin = TroubledNode(draw("stall", node.seed), node.seed, START)
    twin.fault = twin.ailment = None
    twin.advance(node.now)
    return twin


def done(node: TroubledNode, action: Action, then: float = 0.0) -> Outcome:
    """Plan an action and carry it out, then live on for a while."""

    async def work() -> Outcome:
        hands = SimulatedHands(node, NodeClock(node))
        outcome = await hands.act(action, await hands.plan(action, node.now), node.now)
        await asyncio.sleep(then)
        return outcome

    return live(node, work())


def mended(node: TroubledNode) -> bool:
    assert node.ailment is not None
    return node.ailment.mended()


RESTART = Action("restart")


def test_before_its_onset_nothing_is_wrong() -> None:
    for name in FAULTS:
        fault = draw(name, 103)
        node = TroubledNode(fault, 103, START)
        node.advance(START + min(fault.onset_seconds, 1200.0) - 5.0)
        assert not node.begun
        assert not node.control.down
        assert node.waiting < 20
        assert node.temperature_celsius < 75.0


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_lasts_while_nobody_does_anything(name: FaultName) -> None:
    after = 4 * 3600.0 if draw(name, 101).slow else 1800.0
    assert not mended(ill(name, after=after))


@pytest.mark.parametrize("name", ["slow_card", "irq_storm", "governor", "numa"])
def test_what_slows_a_step_slows_the_users(name: FaultName) -> None:
    node = ill(name, after=1500.0)
    twin = healthy(node)
    assert node.completed < twin.completed
    assert node.engine.itl_sum / sum(node.engine.itl_counts) > twin.engine.itl_sum / sum(
        twin.engine.itl_counts
    )


def test_a_slow_card_is_busier_than_those_that_wait_for_it() -> None:
    node = ill("slow_card", "hidden")
    assert node.fault is not None
    slow = node.fault.card
    others = [card.aicore for number, card in enumerate(node.cards) if number != slow]
    assert node.cards[slow].aicore > 1.1 * max(others)
    assert {card.megahertz for card in node.cards} == {1800}


def test_a_card_that_is_slow_by_its_clock_shows_it_and_is_cool() -> None:
    node = ill("slow_card", "clock")
    assert node.fault is not None
    assert node.cards[node.fault.card].megahertz < 1600
    assert node.temperature_celsius < 75.0


@pytest.mark.parametrize("variant", ["one_fan", "two_fans", "all_fans"])
def test_a_failing_fan_heats_its_cards_and_less_load_cools_them(variant: str) -> None:
    node = ill("thermal", variant, after=1200.0)
    hot = sum(card.celsius > 85.0 for card in node.cards)
    assert hot == {"one_fan": 1, "two_fans": 2, "all_fans": 4}[variant]
    for _ in range(2):
        done(node, Action("set_knobs", {"max_num_seqs": "x0.5"}), then=600.0)
    assert mended(node)
    assert node.waiting > 5  # nothing is for free: the users wait


def test_traffic_that_leaves_cools_a_card_within_minutes() -> None:
    node = ill("thermal", after=1200.0)
    outcome = done(node, Action("traffic_away"), then=300.0)
    assert outcome.figures["within_30_seconds"]
    assert node.running == node.waiting == 0
    assert mended(node)


def test_without_a_second_replica_traffic_cannot_leave() -> None:
    node = ill("slow_card", second_replica=False)
    with pytest.raises(ActionRefused, match="within 30 s is impossible"):
        done(node, Action("traffic_away"))
    assert node.running > 0


@pytest.mark.parametrize(
    ("name", "variant"),
    [
        ("slow_card", ""),
        ("leak", "hbm_all"),
        ("leak", "rss"),
        ("fragmentation", ""),
        ("stall", ""),
        ("dead_engine", ""),
    ],
)
def test_a_restart_mends_what_ends_with_the_processes(name: FaultName, variant: str) -> None:
    node = ill(name, variant, after=4 * 3600.0 if draw(name, 101).slow else 300.0)
    outcome = done(node, RESTART, then=60.0)
    assert outcome.ok
    assert mended(node)
    assert node.running > 0


@pytest.mark.parametrize("name", ["stall", "dead_engine"])
def test_a_rescue_restarts_an_engine_that_is_down_and_none_that_serves(name: FaultName) -> None:
    rescue = Action("restart", {"when": "down"})
    node = ill(name, after=300.0)
    assert done(node, rescue, then=60.0).ok
    assert mended(node)
    with pytest.raises(ActionRefused, match="it serves"):
        done(node, rescue)


@pytest.mark.parametrize("variant", ["start", "long_prompts"])
def test_memory_that_does_not_suffice_is_not_mended_by_the_same_start(variant: str) -> None:
    node = ill("oom_at_load", variant)
    assert node.control.down
    assert any("NPU out of memory. Tried to allocate" in line for line in node.log)
    again = done(node, RESTART, then=900.0)
    assert not mended(node)
    assert node.control.down
    assert again.ok == (variant == "long_prompts")
    smaller = {"gpu_memory_utilization": "x0.95", "batch_max_tokens": "x0.5"}
    assert done(node, Action("restart", {"settings": smaller}), then=900.0).ok
    assert mended(node)
    assert node.running > 0


def test_a_stalled_engine_shows_the_page_of_its_last_step() -> None:
    node = ill("stall", after=30.0)
    page = node.metrics_text()
    before = node.waiting
    node.advance(node.now + 300.0)
    assert node.metrics_text() == page
    assert node.waiting > before


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("irq_storm", {"irq_placement": "off_compute"}),
        ("governor", {"cpu_governor": "performance"}),
        ("numa", {"placement": "nearest", "memory": "nearest"}),
    ],
)
def test_the_host_lane_mends_the_host(name: FaultName, change: dict[str, str]) -> None:
    node = ill(name, after=900.0)
    steps = node.engine.physics.overhead_seconds
    assert done(node, Action("set_host", change), then=5.0).ok
    assert mended(node)
    assert node.engine.physics.overhead_seconds < steps


def test_a_value_put_back_on_the_host_brings_its_trouble_back() -> None:
    node = ill("governor", after=60.0)
    found = node.tended.values["cpu_governor"]
    asyncio.run(node.tended.apply(HostChange("cpu_governor", "performance")))
    asyncio.run(node.tended.apply(HostChange("cpu_governor", found)))
    assert not mended(node)


@pytest.mark.parametrize("mend", [Action("expand_batch", {"factor": 2.0}), Action("scale_up")])
def test_a_crowd_is_served_by_a_larger_batch_or_by_more_replicas(mend: Action) -> None:
    node = ill("queue_surge", after=1200.0)
    assert node.waiting > 80
    done(node, mend, then=900.0)
    assert mended(node)
    assert node.waiting < 60


def test_values_set_in_the_running_engine_are_put_back_by_their_undo() -> None:
    node = ill("queue_surge")

    async def work() -> None:
        hands = SimulatedHands(node, NodeClock(node))
        action = Action("set_knobs", {"max_num_seqs": "x0.5"})
        plan = await hands.plan(action, node.now)
        await hands.act(action, plan, node.now)
        assert node.control.read_state().values["max_num_seqs"] == 12
        assert plan.undo is not None
        await hands.undo(action, plan.undo, node.now)

    live(node, work())
    assert node.control.read_state().values["max_num_seqs"] == 24


def test_the_same_fault_and_seed_give_the_same_life_however_it_is_sliced() -> None:
    def life(advance: Callable[[TroubledNode], None]) -> tuple[object, ...]:
        node = TroubledNode(draw("thermal", 105), 105, START)
        advance(node)
        return node.completed, node.metrics_text(), node.npu_smi_info(), [card.clock for card in node.cards]

    def by_seconds(node: TroubledNode) -> None:
        for second in range(2400):
            node.advance(START + second + 1.0)

    assert life(by_seconds) == life(lambda node: node.advance(START + 2400.0))
