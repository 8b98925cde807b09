"""Campaigns over the host's knobs on the simulated node: what they change, write down, show and take back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from change.engine import EngineUnreachable, PluginAbsent
from change.host_steps import recover_host
from change.journal import Journal
from change.lock import EngineLock, LockHeld, NodeLock
from collectors.history import History
from daemon.campaigns import Campaigns
from daemon.config import Config
from daemon.headless import START, node_gauges, node_lanes, settings_of
from daemon.lanes import LaneControl
from daemon.modes import Modes
from daemon.notices import Notices
from daemon.tuning import Tuning
from sim.host_hand import SimulatedHost, found
from sim.node import Node
from sim.scenario import SCENARIOS
from store import Store, open_store
from store.models import Campaign, JournalEntry, Trial
from tuner.settings import Slo, TuneSettings
from web.body import Refused

SCENARIO = SCENARIOS["ttft-32b"]
PLACING = replace(settings_of(SCENARIO, None), knobs=("placement", "memory"), min_effect=0.03, minutes=90.0)


class Stand:
    """One node with its host, one store and one campaign."""

    def __init__(self) -> None:
        self.node = Node(SCENARIO, 105, START)
        self.node.advance(START + 30.0)
        self.store: Store = open_store("sqlite:///:memory:")
        self.journal = Journal(self.store, "simulated")

    async def begin(self, settings: TuneSettings = PLACING) -> Tuning:
        self.lanes: LaneControl | None = await node_lanes(self.node, self.journal, settings)
        self.tuning = Tuning(
            self.node.control,
            self.store,
            self.journal,
            lambda _: node_gauges(self.node),
            settings,
            Slo(),
            engine="simulated",
            seed=5,
            timer=None,
            lanes=self.lanes,
        )
        return self.tuning

    async def until(self, done: Callable[[], bool]) -> None:
        last = self.node.now + 20_000.0
        while not done():
            assert self.node.now < last, "it did not come"
            self.node.advance(self.node.now + 1.0)
            await self.tuning.tick(self.node.now)

    @property
    def host(self) -> dict[str, str]:
        assert self.node.host is not None
        return self.node.host.values

    def as_found(self) -> bool:
        story = self.node.drawn.host
        assert story is not None
        return self.host == found(story)

    def rows(self, table: Any) -> list[Any]:
        with self.store.reading() as session:
            return list(session.scalars(select(table)).all())


def test_a_campaign_keeps_the_best_placement_and_says_it_in_words() -> None:
    async def story() -> None:
        stand = Stand()
        tuning = await stand.begin()
        await stand.until(lambda: tuning.done)
        report = tuning.report
        assert report is not None
        assert report["decision"] == "promoted"
        assert report["winner"]["placement"] == report["effective"]["placement"] == "split:4"
        assert report["incumbent"]["placement"] == "as_found"
        assert (stand.host["placement"], stand.host["memory"]) == ("split:4", "node:4")
        assert 0.06 < report["effect"]["median"] < 0.12
        (campaign,) = stand.rows(Campaign)
        assert campaign.incumbent["placement"] == "as_found"
        tried = {trial.values["placement"] for trial in stand.rows(Trial)}
        assert {"split:6", "split:4", "whole:6"} <= tried
        whole = [t for t in stand.rows(Trial) if t.values["placement"].startswith("whole")]
        assert whole and all(trial.state != "promoted" for trial in whole)
        entries = stand.rows(JournalEntry)
        assert all(entry.state == "closed" for entry in entries)
        kept = [e for e in entries if e.lane == "host" and e.outcome == "done"]
        assert [e.kind for e in kept] == ["promotion"]
        assert all("placement" not in e.change for e in entries if e.lane == "hot")
        # Another campaign begins where this one ended, and knows its winner by the words.
        second = await stand.begin(replace(PLACING, minutes=60.0))
        await stand.until(lambda: second.campaign is not None)
        assert second.campaign is not None
        assert second.campaign.report.incumbent["placement"] == 0
        assert stand.lanes is not None and stand.lanes.options["placement"][0] == "split:4"

    asyncio.run(story())


def test_stopping_puts_the_host_back_in_the_same_second() -> None:
    async def story() -> None:
        stand = Stand()
        tuning = await stand.begin()
        await stand.until(lambda: not stand.as_found())
        await tuning.stop(stand.node.now, "aborted", "paused by the operator")
        assert stand.as_found()
        assert tuning.done and not stand.journal.open_entries("host")
        assert (await stand.node.control.state()).mark == ""

    asyncio.run(story())


def test_a_daemon_that_dies_in_a_trial_leaves_what_recovery_needs() -> None:
    async def story() -> None:
        stand = Stand()
        await stand.begin()
        await stand.until(lambda: not stand.as_found())
        stand.node.advance(stand.node.now + 120.0)
        state = await stand.node.control.state()
        assert state.mark == "" and state.lease_remaining_seconds is None and not stand.as_found()
        assert stand.node.host is not None
        host = stand.node.host
        await recover_host(host, stand.journal, stand.node.now, boot_id=host.boot_id())
        assert stand.as_found() and not stand.journal.open_entries("host")

    asyncio.run(story())


def test_an_engine_that_is_gone_for_longer_than_its_lease_gets_its_host_back() -> None:
    async def story() -> None:
        stand = Stand()
        tuning = await stand.begin()
        await stand.until(lambda: not stand.as_found())
        stand.node.control.down = True

        async def gone() -> Any:
            raise EngineUnreachable("gone")

        stand.node.control.state = gone  # type: ignore[method-assign]
        now = stand.node.now
        for second in range(1, 100):
            if tuning.done:
                break
            stand.node.engine.clock = now + second
            await tuning.tick(now + second)
        assert stand.as_found()

    asyncio.run(story())


def test_a_value_that_does_not_take_makes_the_trial_invalid_and_the_others_go_on() -> None:
    async def story() -> None:
        stand = Stand()
        assert stand.node.host is not None
        stand.node.host.ignores.add("memory")
        tuning = await stand.begin()
        await stand.until(lambda: tuning.done)
        trials = stand.rows(Trial)
        moved = [trial for trial in trials if trial.values["memory"] == "node:4"]
        assert moved and all(trial.state == "invalid" for trial in moved)
        assert "memory was asked to be node:4 and is as_found" in moved[0].reason
        assert any(trial.values["placement"] == "split:4" and trial.state != "invalid" for trial in trials)
        assert tuning.report is not None and tuning.report["decision"] == "kept"

    asyncio.run(story())


def test_a_promotion_taken_back_in_probation_takes_the_host_along() -> None:
    async def story() -> None:
        stand = Stand()
        tuning = await stand.begin()
        await stand.until(lambda: tuning.campaign is not None and tuning.campaign.phase == "probation")
        assert stand.host["placement"] == "split:4"
        await tuning.stop(stand.node.now, "aborted", "the operator saw something")
        await stand.until(lambda: tuning.done)
        assert stand.as_found()
        assert stand.journal.standing("sim-host-ttft-32b-105", "host") == []
        assert not stand.journal.campaign_promoted(1)

    asyncio.run(story())


class SharedHost:
    """A node's host as one of several engines has it: its node-wide knobs are under a lock."""

    def __init__(self, host: SimulatedHost, folder: Path) -> None:
        self.hand = host
        self.folder = folder

    def boot_id(self) -> str:
        return self.hand.boot_id()

    def node_lock(self, what: str) -> NodeLock:
        return NodeLock(self.folder, self.boot_id(), what)

    def process_lock(self, what: str) -> EngineLock:
        return EngineLock(self.folder, "process-100-1", what)


class Daemonlike:
    """The daemon's campaigns over a simulated node with a host."""

    def __init__(self, folder: Path, knobs: list[str] | None = None) -> None:
        self.node = Node(SCENARIO, 105, START)
        self.config = Config.model_validate({"mode": "act", "tune": {"knobs": knobs, "minutes": 60}})
        self.store = open_store("sqlite:///:memory:")
        self.notices = Notices(lambda: self.node.now)
        assert self.node.host is not None
        self.host = SharedHost(self.node.host, folder / "node")
        self.campaigns = Campaigns(
            control=self.node.control,
            store=self.store,
            journal=Journal(self.store, "simulated"),
            history=History(),
            tune=self.config.tune,
            slo=Slo(),
            engine_url="simulated",
            modes=Modes("act", folder / "paused", folder / "stop", ()),
            notices=self.notices,
            lock_dir=folder / "locks",
            ended=lambda: None,
            draw_seed=lambda: 5,
            host=self.host,
            clock=lambda: self.node.now,
        )

    async def searched(self, mode: Any = "act") -> set[str]:
        """Begin a campaign and tell which of the host's knobs it moves."""
        await self.campaigns.start(mode, None, self.node.now)
        tuning = self.campaigns._tuning
        lanes = tuning._lanes if isinstance(tuning, Tuning) else None
        return set() if lanes is None else set(lanes.options)


def test_the_engines_own_threads_and_pages_are_tried_unless_others_are_named(tmp_path: Path) -> None:
    async def story() -> None:
        assert await Daemonlike(tmp_path).searched() == {"placement", "memory", "shared_memory"}
        assert await Daemonlike(tmp_path / "b").searched("advise") == set()
        assert await Daemonlike(tmp_path / "c", ["cpu_governor"]).searched("advise") == {"cpu_governor"}
        assert await Daemonlike(tmp_path / "d", ["max_num_seqs"]).searched() == set()

    asyncio.run(story())


def test_a_node_wide_knob_needs_the_node_for_itself(tmp_path: Path) -> None:
    async def story() -> None:
        one = Daemonlike(tmp_path, ["cpu_governor"])
        with one.host.node_lock("another engine's campaign"):
            with pytest.raises(Refused, match="another engine's campaign"):
                await one.campaigns.start("act", None, one.node.now)
            assert not one.campaigns.running
        await one.campaigns.start("act", None, one.node.now)
        await one.campaigns.stop("enough", one.node.now)
        one.host.node_lock("whoever comes next").acquire()

    asyncio.run(story())


def test_a_campaign_over_the_host_meets_whoever_holds_the_engines_process(tmp_path: Path) -> None:
    async def story() -> None:
        one = Daemonlike(tmp_path)
        with (
            one.host.process_lock("an order while the plugin was silent"),
            pytest.raises(Refused, match="while the plugin was silent"),
        ):
            await one.campaigns.start("act", None, one.node.now)
        await one.campaigns.start("act", None, one.node.now)
        with pytest.raises(LockHeld, match="a campaign"):
            one.host.process_lock("an order").acquire()
        await one.campaigns.stop("enough", one.node.now)
        one.host.process_lock("whoever comes next").acquire()

    asyncio.run(story())


def test_without_a_plugin_no_knob_of_the_host_is_tried(tmp_path: Path) -> None:
    async def story() -> None:
        one = Daemonlike(tmp_path)

        async def bare() -> Any:
            raise PluginAbsent("the engine has no Trimtab plugin")

        one.node.control.state = bare  # type: ignore[method-assign]
        with pytest.raises(PluginAbsent):
            await one.campaigns.start("act", None, one.node.now)
        assert one.host.hand.values["placement"] == "as_found"

    asyncio.run(story())
