"""An outer loop driven against the simulated node in virtual time: what serves, what is stored and journaled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from sqlalchemy import select

from change.journal import Journal
from change.lock import EngineLock
from daemon.cold_memory import cold_past
from daemon.headless import START, node_gauges, outer_campaign
from daemon.outer_tuning import OuterTuning
from daemon.simulated_cold import simulated_cold
from sim.cold_story import HONOURED
from sim.node import Node
from sim.scenario import SCENARIOS
from sim.server_arguments import settings_of
from sim.virtual_time import live
from store import open_store
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
    """One node with a cold lane, one store and one campaign over all lanes that keeps its engine's lock."""

    def __init__(
        self,
        folder: Path,
        scenario: str = "guide-235b-plain",
        outer: OuterSettings = SHORT,
        *,
        mode: Any = "act",
        may_restart: Callable[[float], bool] = lambda _: True,
    ) -> None:
        self.node = Node(SCENARIOS[scenario], 7, START)
        self.node.advance(START + 30.0)
        self.store = open_store("sqlite:///:memory:")
        self.journal = Journal(self.store, "simulated")
        self.cold = simulated_cold(
            self.node, self.journal, lambda name: EngineLock(folder, name, "a restart")
        )
        self.boots: list[str] = []
        self._folder = folder
        self.lock = EngineLock(folder, self.node.control.boot_id, "a campaign")
        self.lock.acquire()
        self.tuning = OuterTuning(
            self.node.control,
            self.store,
            self.journal,
            lambda _: node_gauges(self.node),
            QUICK,
            outer,
            Slo(),
            self.cold.lane,
            engine="simulated",
            mode=mode,
            seed=5,
            timer=None,
            may_restart=may_restart,
            moving=lambda: self.lock.release(),
            moved=self._moved,
        )

    def _moved(self, boot_id: str) -> str | None:
        self.boots.append(boot_id)
        self.lock = EngineLock(self._folder, boot_id, "a campaign")
        self.lock.acquire()
        return None

    def until(self, done: Callable[[], bool], each: Callable[[], None] = lambda: None) -> None:
        """Live until something is so, or the campaign is over."""

        async def drive() -> None:
            while not (done() or self.tuning.done):
                await asyncio.sleep(1.0)
                await self.tuning.tick(self.node.now)
                each()

        live(self.node, drive())

    def restarts(self) -> list[tuple[str, str | None]]:
        """Kind and outcome of each restart so far."""
        return [(e.kind, e.outcome) for e in self.rows(JournalEntry) if e.lane == "cold"]

    def trial_is_measured(self) -> bool:
        mind = self.tuning.mind
        return mind is not None and mind.serving > 0 and isinstance(self.tuning._command, Measure)

    def promotion_is_measured(self) -> bool:
        mind = self.tuning.mind
        return mind is not None and mind.phase == "probation" and isinstance(self.tuning._command, Measure)

    def incumbents(self) -> bool:
        """Whether all of the engine is as the incumbent was, and so is its next start."""
        mind = self.tuning.mind
        assert mind is not None
        promoted = self.journal.promoted()
        values = self.node.control.read_state().values
        return (
            self.node.cold == HONOURED.launch == settings_of(self.cold.server.kept)
            and values == mind._hot
            and (promoted is None or all(values[name] == value for name, value in promoted.values.items()))
            and self.journal.open_entries() == self.journal.open_entries("cold") == []
        )

    def rows(self, table: type[Row]) -> list[Row]:
        with self.store.reading() as session:
            return list(session.scalars(select(table)))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Stand:
    stand = Stand(tmp_path_factory.mktemp("locks"))
    stand.until(lambda: stand.tuning.done)
    return stand


def test_start_up_settings_are_promoted_and_the_report_says_at_what_price(whole: Stand) -> None:
    report = whole.tuning.report
    assert report is not None and report["decision"] == "promoted"
    cold = report["cold"]
    assert cold["label"] == "not error-controlled" and cold["effect"]["median"] > 0.2
    assert cold["effective"]["pipeline_parallel_size"] == 4 == whole.node.cold["pipeline_parallel_size"]
    assert report["restarts"] == 4 and cold["lost_minutes"] > 30
    assert whole.node.failed_requests == 0


def test_each_restart_is_an_entry_of_the_journal_and_the_promotion_restarts_nothing(whole: Stand) -> None:
    assert whole.restarts() == [
        ("trial", "undone"),
        ("trial", "undone"),
        ("trial", "done"),  # back to the incumbent, for the alternation
        ("trial", "undone"),  # promoted by the next
        ("promotion", "done"),
    ]
    assert whole.cold.server.starts == 4 and not whole.cold.server.two_at_once
    assert settings_of(whole.cold.server.kept) == whole.node.cold


def test_what_the_incumbent_started_with_is_not_spelled_out_in_its_command(whole: Stand) -> None:
    before, *_ = (e.undo["command"]["argv"] for e in whole.rows(JournalEntry) if e.lane == "cold")
    home = next(e for e in whole.rows(JournalEntry) if e.lane == "cold" and e.outcome == "done")
    assert home.change["command"]["argv"] == before


def test_trials_starts_and_the_hot_campaigns_inside_are_stored_together(whole: Stand) -> None:
    outer, *inner = whole.rows(Campaign)
    assert outer.lane == "cold" and outer.decision == "promoted" and outer.parent is None
    assert inner and all(c.lane == "hot" and c.parent == outer.id and c.ended for c in inner)
    trials = [t for t in whole.rows(Trial) if t.campaign_id == outer.id]
    assert {t.state for t in trials} == {"promoted", "rejected"}
    assert all(t.effective is not None and t.values["block_size"] for t in trials)
    starts = whole.rows(ColdStart)
    # The promotion in place says once more that it serves.
    assert [s.outcome for s in starts] == ["served"] * 5
    with whole.store.reading() as session:
        newest = newest_campaign(session, "simulated")
        assert newest is not None and newest.id == outer.id


def test_the_lock_is_given_to_every_restart_and_taken_after_it(whole: Stand) -> None:
    # Twice the same boot: a promotion of what serves restarts nothing, and had to have the lock all the same.
    assert len(set(whole.boots)) == 4 and len(whole.boots) == 5
    assert whole.boots[-1] == whole.node.control.boot_id


def test_no_journal_entry_is_left_open_and_the_hot_values_that_stand_are_promoted(whole: Stand) -> None:
    assert all(entry.state == "closed" for entry in whole.rows(JournalEntry))
    promoted = whole.journal.promoted()
    values = whole.node.control.read_state().values
    assert promoted is None or dict(promoted.values) == dict(values)


def test_a_promotion_that_held_is_left_alone_by_the_next_process(whole: Stand) -> None:
    starts = whole.cold.server.starts
    whole.lock.release()
    live(whole.node, whole.cold.afresh().tick(whole.node.now))
    assert whole.cold.server.starts == starts and whole.restarts()[-1] == ("promotion", "done")


def test_the_next_campaign_begins_with_what_this_one_found(whole: Stand) -> None:
    past = cold_past(whole.store, "simulated", "0.32.0")
    assert past.winners and past.winners[0]["pipeline_parallel_size"] == 4
    assert 0.0 < past.usual_sd < 0.1
    assert cold_past(whole.store, "simulated", "0.33.0").memory.marks == {}


def test_what_the_engine_forces_or_does_not_know_is_found_before_it_is_scored(tmp_path: Path) -> None:
    stand = Stand(tmp_path, "clamped", OuterSettings(4, stint_minutes=8.0, allow=("swap_space",)))

    def cold() -> list[Trial]:
        outer = {c.id for c in stand.rows(Campaign) if c.lane == "cold"}
        return [t for t in stand.rows(Trial) if t.campaign_id in outer]

    stand.until(lambda: sum(t.state == "invalid" for t in cold()) >= 2)
    forced, gone = (t for t in cold() if t.state == "invalid")
    assert "block_size 64 was asked for and the engine has 128" in (forced.reason or "")
    assert forced.effective is not None and forced.effective["block_size"] == 128
    assert "--swap-space is gone since 0.18.0" in (gone.reason or "")
    assert forced.effect is None and gone.effect is None
    hot = {c.id for c in stand.rows(Campaign) if c.lane == "hot"}
    assert all(p.campaign_id in hot for p in stand.rows(Pair))
    # One failed start and one way back, and no other block size is tried.
    assert stand.restarts()[0] == ("trial", "undone") and stand.cold.server.starts >= 2
    assert "block_size" in cold_past(stand.store, "simulated", "0.32.0").memory.marks
    stand.until(lambda: stand.tuning.done)
    assert all(t.values.get("block_size", 128) in (64, 128) for t in cold())


def test_a_start_that_breaks_costs_one_restart_and_is_never_tried_again(tmp_path: Path) -> None:
    stand = Stand(tmp_path, outer=replace(SHORT, restarts=5))
    stand.cold.server.faults.append("out_of_memory")
    stand.until(lambda: stand.tuning.done)
    report = stand.tuning.report
    assert report is not None and report["decision"] == "promoted"
    first, *others = report["cold"]["trials"]
    assert first["state"] == "invalid" and "out of memory" in first["reason"]
    assert all(other["requested"] != first["requested"] for other in others)
    # One more start than restarts: the way back of the first.
    assert report["restarts"] == stand.cold.server.starts - 1 == 4
    assert stand.node.failed_requests == 0


def test_an_engine_that_does_not_come_back_is_left_to_a_person(tmp_path: Path) -> None:
    stand = Stand(tmp_path)
    stand.cold.server.faults += ["out_of_memory", "init_failure"]
    stand.until(lambda: stand.tuning.done)
    report = stand.tuning.report
    assert report is not None and report["cold"]["decision"] == "aborted"
    assert "nothing serves" in report["reasons"][-1]
    assert stand.cold.notices.holds("restart failed") and stand.cold.server.starts == 2
    assert stand.journal.open_entries("cold") == []


def test_a_closed_window_is_waited_for(tmp_path: Path) -> None:
    opens = START + 3 * 3600.0
    stand = Stand(tmp_path, may_restart=lambda now: now >= opens)
    stand.until(lambda: bool(stand.boots))
    first = next(e for e in stand.rows(JournalEntry) if e.lane == "cold")
    assert opens <= first.intended <= opens + 2.0


def test_a_stop_over_a_candidate_brings_the_start_up_settings_back(tmp_path: Path) -> None:
    stand = Stand(tmp_path)
    stand.until(stand.trial_is_measured)
    live(stand.node, stand.tuning.stop(stand.node.now, "aborted", "a person stopped it"))
    assert stand.node.cold == HONOURED.launch
    assert stand.restarts() == [("trial", "undone"), ("rollback", "done")]
    report = stand.tuning.report
    assert report is not None and report["decision"] == "aborted" and report["restarts"] == 2
    assert all(entry.state == "closed" for entry in stand.rows(JournalEntry))


def test_a_promotion_given_up_in_probation_goes_back_once_and_for_all(tmp_path: Path) -> None:
    stand = Stand(tmp_path)
    stand.until(stand.promotion_is_measured)
    live(stand.node, stand.tuning.stop(stand.node.now, "aborted", "a person stopped it"))
    assert stand.incumbents()
    promotion, back = [e for e in stand.rows(JournalEntry) if e.lane == "cold"][-2:]
    assert (back.kind, back.outcome, back.undoes) == ("rollback", "done", [promotion.id])
    starts = stand.cold.server.starts
    stand.lock.release()
    live(stand.node, stand.cold.afresh().tick(stand.node.now))
    assert stand.cold.server.starts == starts


@pytest.mark.parametrize("when", ["trial", "probation"])
def test_after_a_crash_the_next_process_brings_the_incumbent_back(tmp_path: Path, when: str) -> None:
    stand = Stand(tmp_path)
    stand.until(stand.trial_is_measured if when == "trial" else stand.promotion_is_measured)
    stand.lock.release()
    live(stand.node, stand.cold.afresh().tick(stand.node.now))
    assert stand.incumbents()
    assert stand.node.failed_requests == 0
    starts = stand.cold.server.starts
    live(stand.node, stand.cold.afresh().tick(stand.node.now))
    assert stand.cold.server.starts == starts


def test_advise_asks_before_the_campaign_and_before_what_is_to_stay(tmp_path: Path) -> None:
    stand = Stand(tmp_path, mode="advise")
    asked: list[str] = []

    async def run() -> None:
        while not stand.tuning.done:
            await asyncio.sleep(1.0)
            await stand.tuning.tick(stand.node.now)
            pending = stand.tuning.pending
            if pending is not None:
                asked.append(pending.text)
                if "start-up settings" in pending.text:
                    await stand.tuning.decline(stand.node.now)
                else:
                    stand.tuning.approve()

    live(stand.node, run())
    assert "4 restarts" in asked[0] and "start-up settings" in asked[-1]
    assert stand.tuning.report is not None and stand.tuning.report["cold"]["decision"] == "kept"
    assert stand.node.cold == HONOURED.launch


def test_observe_refuses(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="observe"):
        Stand(tmp_path, mode="observe")


def test_a_scenario_without_start_up_settings_is_refused() -> None:
    with pytest.raises(ValueError, match="no start-up settings"):
        outer_campaign(SCENARIOS["default"], 1, 4)
