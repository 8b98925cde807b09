"""A canary's campaign driven on two simulated nodes in virtual time: what serves on either, what is stored and said."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pytest
from sqlalchemy import select

from change.journal import Journal
from daemon.canary_tuning import CanaryTuning
from daemon.headless import START, node_gauges
from daemon.replica import Replica
from sim.node import Node
from sim.scenario import SCENARIOS, Draw, Scenario
from sim.traffic import Mix
from store import open_store
from store.models import Campaign, JournalEntry, Trial
from tests.daemon.node_lane import NodeLane
from tuner.outer.messages import Measure
from tuner.outer.settings import OuterSettings
from tuner.settings import Objective, Slo, TuneSettings

Row = TypeVar("Row")
GUIDE = SCENARIOS["guide-235b-plain"]


def guide(best_block: float = 64.0, mix: Mix | None = None) -> Scenario:
    """The guide's engine on which the block size weighs more, or with other users."""

    def draw(rng: np.random.Generator) -> Draw:
        drawn = GUIDE.draw(rng)
        assert drawn.starts is not None
        arrivals = drawn.arrivals if mix is None else replace(drawn.arrivals, mix=mix)
        return Draw(
            drawn.physics, arrivals, replace(drawn.starts, block_seconds=12e-6, best_block=best_block)
        )

    return replace(GUIDE, draw=draw)


QUICK = TuneSettings(objective=Objective("throughput"), minutes=60.0)
BETTER = OuterSettings(
    4, stint_minutes=12.0, probation_minutes=8.0, knobs=("block_size",), values=(("block_size", (64, 128)),)
)
WORSE = OuterSettings(3, stint_minutes=12.0, knobs=("block_size",), values=(("block_size", (256, 128)),))


class Stand:
    """Two nodes of one kind, each with its lane and journal, and one campaign."""

    def __init__(
        self,
        outer: OuterSettings = BETTER,
        *,
        roll_out: bool = False,
        engine: Scenario | None = None,
        beside: Scenario | None = None,
        mode: Any = "act",
    ) -> None:
        self.canary = Node(engine or guide(), 7, START)
        self.base = Node(beside or engine or guide(), 8, START)
        self.now = START
        self.wait(60.0)
        self.store = open_store("sqlite:///:memory:")
        self.lanes = {name: NodeLane(getattr(self, name)) for name in ("canary", "base")}
        self.own = {name: dict(getattr(self, name).cold) for name in ("canary", "base")}
        self.hot = {name: dict(getattr(self, name).control.read_state().values) for name in self.lanes}
        self.boots: dict[str, list[str]] = {"canary": [], "base": []}
        replicas = {name: self.replica(name) for name in self.lanes}
        self.tuning = CanaryTuning(
            replicas["canary"],
            replicas["base"],
            self.store,
            QUICK,
            outer,
            Slo(),
            engine="simulated",
            mode=mode,
            roll_out=roll_out,
        )

    def replica(self, name: str) -> Replica:
        node: Node = getattr(self, name)

        def moved(boot_id: str) -> str | None:
            self.boots[name].append(boot_id)
            return None

        journal = Journal(self.store, name)
        return Replica(node.control, self.lanes[name], journal, lambda _: node_gauges(node), moved=moved)

    def wait(self, seconds: float) -> None:
        # A restart lets its own node live through it: the other one catches up.
        self.now = max(self.now + seconds, self.canary.now, self.base.now)
        for node in (self.canary, self.base):
            node.advance(self.now)

    def until(self, done: Callable[[], bool], each: Callable[[], None] = lambda: None) -> None:
        async def run() -> None:
            last = self.now + 80_000.0
            while not done():
                assert self.now < last, "it did not come"
                self.wait(1.0)
                await self.tuning.tick(self.now)
                each()

        asyncio.run(run())

    def whole(self) -> dict[str, Any]:
        self.until(lambda: self.tuning.done)
        assert self.tuning.report is not None
        return self.tuning.report

    def trial_is_measured(self) -> bool:
        mind = self.tuning.mind
        return mind is not None and mind.serving > 0 and isinstance(self.tuning._command, Measure)

    def rows(self, table: type[Row]) -> list[Row]:
        with self.store.reading() as session:
            return list(session.scalars(select(table)))

    def at_home(self, name: str) -> bool:
        node: Node = getattr(self, name)
        return dict(node.cold) == self.own[name] and dict(node.control.read_state().values) == self.hot[name]


def test_a_better_block_size_is_found_on_the_canary_while_the_base_is_never_restarted() -> None:
    stand = Stand()
    report = stand.whole()
    found = report["cold"]["canary"]
    assert report["cold"]["decision"] == "kept" and report["winner"] is None
    assert found["found"]["block_size"] == 64 and not found["rolled_out"]
    assert found["effect"]["low"] > 0.0 and found["effect"]["alternations"] == 2
    assert "start the engine with block_size 64" in found["roll_out"]
    assert "roll_out is off" in report["reasons"][-1]
    assert stand.lanes["base"].kinds == []
    assert stand.lanes["canary"].kinds == ["trial"] * 3 + ["rollback"]
    assert stand.at_home("canary") and stand.at_home("base")
    assert stand.base.failed_requests == 0


def test_what_held_on_the_canary_is_rolled_out_by_one_restart_of_the_base() -> None:
    stand = Stand(roll_out=True)
    report = stand.whole()
    assert report["decision"] == "promoted" and report["cold"]["canary"]["rolled_out"]
    assert report["cold"]["label"] == "not error-controlled"
    assert stand.lanes["base"].kinds == ["promotion"]
    assert stand.lanes["canary"].kinds == ["trial"] * 3
    for name, node in (("canary", stand.canary), ("base", stand.base)):
        assert node.cold["block_size"] == 64
        assert dict(node.control.read_state().values) == stand.hot[name]
    assert all(entry.state == "closed" for entry in stand.rows(JournalEntry))
    (campaign,) = stand.rows(Campaign)
    assert campaign.lane == "cold" and campaign.decision == "promoted"
    assert [t.state for t in stand.rows(Trial)].count("promoted") == 1


def test_a_base_that_does_not_gain_what_the_canary_did_goes_back_in_probation() -> None:
    stand = Stand(roll_out=True, beside=guide(best_block=128.0))
    report = stand.whole()
    assert report["decision"] == "aborted" and report["winner"] is None
    assert "stayed behind the canary" in report["reasons"][-1]
    assert stand.lanes["base"].kinds == ["promotion", "rollback"]
    assert stand.at_home("canary") and stand.at_home("base")


def test_a_base_whose_way_back_is_refused_is_said_to_be_left_on_the_candidate() -> None:
    stand = Stand(roll_out=True, beside=guide(best_block=128.0))
    stand.lanes["base"].refused.add("rollback")
    report = stand.whole()
    assert report["decision"] == "aborted"
    assert "the base did not come back: an order was refused" in report["reasons"][-1]
    assert stand.at_home("canary") and stand.base.cold["block_size"] == 64


def test_a_canary_whose_way_home_is_refused_is_said_to_be_left_on_the_candidate() -> None:
    stand = Stand()
    stand.lanes["canary"].refused.add("rollback")
    report = stand.whole()
    assert "the canary did not come back: an order was refused" in report["reasons"][-1]
    assert stand.canary.cold["block_size"] == 64


def test_a_canary_that_may_not_keep_what_is_rolled_out_goes_home() -> None:
    stand = Stand(roll_out=True)
    stand.lanes["canary"].refused.add("promotion")
    report = stand.whole()
    assert report["decision"] == "promoted" and stand.base.cold["block_size"] == 64
    assert "the canary did not keep it: an order was refused" in report["reasons"][0]
    assert stand.lanes["canary"].kinds == ["trial"] * 3 + ["rollback"]
    assert stand.at_home("canary")


def test_a_worse_block_size_is_not_promoted_and_the_canary_goes_home() -> None:
    stand = Stand(WORSE, roll_out=True, engine=guide(best_block=128.0))
    report = stand.whole()
    assert report["decision"] == "kept" and report["cold"]["canary"]["found"] is None
    assert stand.lanes["base"].kinds == []
    assert stand.lanes["canary"].kinds[-1] == "rollback"
    assert stand.at_home("canary") and stand.at_home("base")


def test_a_candidate_that_dies_at_its_start_is_given_up_and_the_canary_serves_its_own() -> None:
    outer = OuterSettings(
        3,
        stint_minutes=12.0,
        knobs=("gpu_memory_utilization",),
        values=(("gpu_memory_utilization", (0.99, 0.9)),),
    )
    stand = Stand(outer)
    report = stand.whole()
    (trial,) = [t for t in report["cold"]["trials"] if t["requested"]["gpu_memory_utilization"] == 0.99]
    assert trial["state"] == "invalid" and "out of memory" in trial["reason"]
    assert stand.at_home("canary") and stand.at_home("base")
    assert stand.lanes["base"].kinds == []


def test_a_canary_that_crashes_under_a_candidate_comes_back_on_its_own_settings() -> None:
    stand = Stand()
    stand.until(stand.trial_is_measured)
    stand.canary.restart(down_seconds=30.0, cold=dict(stand.canary.cold))
    report = stand.whole()
    assert report["decision"] == "aborted" and "the canary ended" in report["reasons"][-1]
    assert stand.at_home("canary") and stand.lanes["canary"].kinds[-1] == "rollback"


def test_a_base_that_somebody_restarts_ends_it_and_is_left_alone() -> None:
    stand = Stand(roll_out=True)
    stand.until(stand.trial_is_measured)
    stand.base.restart(down_seconds=30.0)
    report = stand.whole()
    assert report["decision"] == "superseded"
    assert stand.lanes["base"].kinds == [] and stand.at_home("canary")


def test_a_stop_over_a_candidate_brings_the_canary_home() -> None:
    stand = Stand()
    stand.until(stand.trial_is_measured)
    asyncio.run(stand.tuning.stop(stand.now, "aborted", "a person stopped it"))
    assert stand.at_home("canary")
    assert stand.tuning.report is not None and stand.tuning.report["decision"] == "aborted"
    assert all(entry.state == "closed" for entry in stand.rows(JournalEntry))


def test_advise_asks_before_the_campaign_and_before_the_base_is_restarted() -> None:
    stand = Stand(roll_out=True, mode="advise")
    asked: list[str] = []

    async def run() -> None:
        while not stand.tuning.done:
            stand.wait(1.0)
            await stand.tuning.tick(stand.now)
            if (pending := stand.tuning.pending) is not None:
                asked.append(pending.text)
                if pending.kind == "campaign":
                    stand.tuning.approve()
                else:
                    await stand.tuning.decline(stand.now)

    asyncio.run(run())
    assert "canary" in asked[0] and "restart the engine" in asked[1] and len(asked) == 2
    report = stand.tuning.report
    assert report is not None and report["cold"]["decision"] == "kept"
    assert "block_size 64" in report["cold"]["canary"]["roll_out"]
    assert stand.lanes["base"].kinds == [] and stand.at_home("canary")


def test_a_canary_with_other_users_is_said_and_not_scored() -> None:
    stand = Stand(beside=guide(mix=Mix(prompts=((1024, 1.0),))))
    report = stand.whole()
    assert report["decision"] == "inconclusive" and report["cold"]["trials"] == []
    assert "serve different traffic" in report["reasons"][-1]
    assert stand.lanes["canary"].kinds == [] and stand.at_home("canary")


def test_observe_refuses() -> None:
    with pytest.raises(ValueError, match="observe"):
        Stand(mode="observe")
