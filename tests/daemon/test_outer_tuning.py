"""An outer loop driven against the simulated node in virtual time: what serves, what is stored and journaled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from sqlalchemy import select

from change.journal import Journal
from daemon.cold_memory import cold_past
from daemon.headless import START, node_gauges, outer_campaign
from daemon.outer_tuning import OuterTuning
from sim.cold_lane import SimulatedColdLane
from sim.cold_story import HONOURED
from sim.node import Node
from sim.scenario import SCENARIOS
from store import Store, open_store
from store.models import Campaign, ColdStart, JournalEntry, Pair, Trial
from store.queries import newest_campaign
from tuner.outer.messages import Measure
from tuner.outer.settings import OuterSettings
from tuner.settings import Objective, Slo, TuneSettings

Row = TypeVar("Row")
QUICK = TuneSettings(
    knobs=("max_prefill_tokens",), objective=Objective("throughput"), min_effect=0.15, minutes=60.0
)
SHORT = OuterSettings(
    4, stint_minutes=8.0, probation_minutes=8.0, allow=("pipeline_parallel_size", "tensor_parallel_size")
)


class Stand:
    """One node with a cold lane, one store and one campaign over all lanes."""

    def __init__(
        self,
        scenario: str = "guide-235b-plain",
        outer: OuterSettings = SHORT,
        *,
        mode: Any = "act",
        store: Store | None = None,
    ) -> None:
        self.node = Node(SCENARIOS[scenario], 7, START)
        self.node.advance(START + 30.0)
        self.store = store or open_store("sqlite:///:memory:")
        self.journal = Journal(self.store, "simulated")
        self.lane = SimulatedColdLane(self.node)
        self.boots: list[str] = []
        self.tuning = OuterTuning(
            self.node.control,
            self.store,
            self.journal,
            lambda _: node_gauges(self.node),
            QUICK,
            outer,
            Slo(),
            self.lane,
            engine="simulated",
            mode=mode,
            seed=5,
            timer=None,
            moved=self._moved,
        )

    def _moved(self, boot_id: str) -> str | None:
        self.boots.append(boot_id)
        return None

    async def until(self, done: Callable[[], bool], seconds: float = 80_000.0) -> None:
        last = self.node.now + seconds
        while not done():
            assert self.node.now < last, "it did not come"
            self.node.advance(self.node.now + 1.0)
            await self.tuning.tick(self.node.now)

    def trial_is_measured(self) -> bool:
        mind = self.tuning.mind
        return mind is not None and mind.serving > 0 and isinstance(self.tuning._command, Measure)

    def rows(self, table: type[Row]) -> list[Row]:
        with self.store.reading() as session:
            return list(session.scalars(select(table)))


@pytest.fixture(scope="module")
def whole() -> Stand:
    stand = Stand()
    asyncio.run(stand.until(lambda: stand.tuning.done))
    return stand


def test_start_up_settings_are_promoted_and_the_report_says_at_what_price(whole: Stand) -> None:
    report = whole.tuning.report
    assert report is not None and report["decision"] == "promoted"
    cold = report["cold"]
    assert cold["label"] == "not error-controlled" and cold["effect"]["median"] > 0.2
    assert cold["effective"]["pipeline_parallel_size"] == 4 == whole.node.cold["pipeline_parallel_size"]
    assert report["restarts"] == 4 and cold["lost_minutes"] > 30
    assert whole.node.failed_requests == 0
    assert whole.lane.kinds == ["trial"] * 4


def test_trials_starts_and_the_hot_campaigns_inside_are_stored_together(whole: Stand) -> None:
    outer, *inner = whole.rows(Campaign)
    assert outer.lane == "cold" and outer.decision == "promoted" and outer.parent is None
    assert inner and all(c.lane == "hot" and c.parent == outer.id and c.ended for c in inner)
    trials = [t for t in whole.rows(Trial) if t.campaign_id == outer.id]
    assert {t.state for t in trials} == {"promoted", "rejected"}
    assert all(t.effective is not None and t.values["block_size"] for t in trials)
    starts = whole.rows(ColdStart)
    assert [s.outcome for s in starts] == [
        "served"
    ] * 5  # the promotion in place says once more that it serves
    with whole.store.reading() as session:
        newest = newest_campaign(session, "simulated")
        assert newest is not None and newest.id == outer.id


def test_the_lock_follows_every_restart(whole: Stand) -> None:
    # Twice the same boot: a promotion of what serves restarts nothing, and had to have the lock all the same.
    assert len(set(whole.boots)) == 4 and len(whole.boots) == 5


def test_no_journal_entry_is_left_open_and_the_hot_values_that_stand_are_promoted(whole: Stand) -> None:
    assert all(entry.state == "closed" for entry in whole.rows(JournalEntry))
    report = whole.tuning.report
    assert report is not None
    promoted = whole.journal.promoted()
    values = whole.node.control.read_state().values
    assert promoted is None or dict(promoted.values) == dict(values)


def test_the_next_campaign_begins_with_what_this_one_found(whole: Stand) -> None:
    past = cold_past(whole.store, "simulated", "0.32.0")
    assert past.winners and past.winners[0]["pipeline_parallel_size"] == 4
    assert 0.0 < past.usual_sd < 0.1
    assert cold_past(whole.store, "simulated", "0.33.0").memory.marks == {}


def test_what_the_engine_forces_or_does_not_know_is_found_before_it_is_scored() -> None:
    stand = Stand("clamped", OuterSettings(4, stint_minutes=8.0, allow=("swap_space",)))

    async def run() -> None:
        await stand.until(lambda: sum(t.state == "invalid" for t in cold()) >= 2)

    def cold() -> list[Trial]:
        outer = {c.id for c in stand.rows(Campaign) if c.lane == "cold"}
        return [t for t in stand.rows(Trial) if t.campaign_id in outer]

    asyncio.run(run())
    forced, gone = (t for t in cold() if t.state == "invalid")
    assert "block_size 64 was asked for and the engine has 128" in (forced.reason or "")
    assert "--swap-space is gone since 0.18.0" in (gone.reason or "")
    assert forced.effect is None and gone.effect is None
    hot = {c.id for c in stand.rows(Campaign) if c.lane == "hot"}
    assert all(p.campaign_id in hot for p in stand.rows(Pair))
    assert len(stand.lane.kinds) == 1


def test_a_stop_over_a_candidate_brings_the_start_up_settings_back() -> None:
    stand = Stand()

    async def run() -> None:
        await stand.until(stand.trial_is_measured)
        await stand.tuning.stop(stand.node.now, "aborted", "a person stopped it")

    asyncio.run(run())
    assert stand.node.cold == HONOURED.launch
    assert stand.lane.kinds == ["trial", "rollback"]
    report = stand.tuning.report
    assert report is not None and report["decision"] == "aborted" and report["restarts"] == 2
    assert all(entry.state == "closed" for entry in stand.rows(JournalEntry))


def test_the_end_of_the_daemon_restarts_nothing_and_leaves_the_candidate_to_the_next_start() -> None:
    stand = Stand()

    async def run() -> None:
        await stand.until(stand.trial_is_measured)
        begun = len(stand.lane.kinds)
        await stand.tuning.leave(stand.node.now, "aborted", "the daemon was stopped")
        assert len(stand.lane.kinds) == begun

    asyncio.run(run())
    (campaign,) = [row for row in stand.rows(Campaign) if row.lane == "cold"]
    assert campaign.ended is None


def test_the_end_of_the_daemon_over_the_incumbent_is_a_stop() -> None:
    stand = Stand()

    async def run() -> None:
        await stand.until(lambda: stand.tuning.mind is not None)
        await stand.tuning.leave(stand.node.now, "aborted", "the daemon was stopped")

    asyncio.run(run())
    assert stand.tuning.report is not None
    assert stand.tuning.report["decision"] == "aborted"
    assert stand.lane.kinds == []


def test_advise_asks_before_the_campaign_and_before_what_is_to_stay() -> None:
    stand = Stand(mode="advise")
    asked: list[str] = []

    async def run() -> None:
        while not stand.tuning.done:
            stand.node.advance(stand.node.now + 1.0)
            await stand.tuning.tick(stand.node.now)
            pending = stand.tuning.pending
            if pending is not None:
                asked.append(pending.text)
                if "start-up settings" in pending.text:
                    await stand.tuning.decline(stand.node.now)
                else:
                    stand.tuning.approve()

    asyncio.run(run())
    assert "4 restarts" in asked[0] and "start-up settings" in asked[-1]
    assert stand.tuning.report is not None and stand.tuning.report["cold"]["decision"] == "kept"
    assert stand.node.cold == HONOURED.launch


def test_observe_refuses() -> None:
    with pytest.raises(ValueError, match="observe"):
        Stand(mode="observe")


def test_a_scenario_without_start_up_settings_is_refused() -> None:
    with pytest.raises(ValueError, match="no start-up settings"):
        asyncio.run(outer_campaign(SCENARIOS["default"], 1, 4))
