"""An outer loop driven against the simulated node in virtual time: what serves, what is stored and journaled."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from change.server import ServerError, Settings
from daemon.cold_memory import cold_past
from daemon.headless import START, outer_campaign
from sim.cold_story import HONOURED
from sim.scenario import SCENARIOS
from sim.server_arguments import settings_of
from sim.server_ground import SimulatedGround
from sim.virtual_time import live
from store.models import Campaign, ColdStart, JournalEntry, Pair, Trial
from store.queries import newest_campaign
from tests.daemon.outer_stand import SHORT, Stand
from tuner.outer.settings import OuterSettings


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


def test_the_end_of_the_daemon_restarts_nothing_and_leaves_the_candidate_to_the_next_start(
    tmp_path: Path,
) -> None:
    stand = Stand(tmp_path)
    stand.until(stand.trial_is_measured)
    starts = stand.cold.server.starts
    live(stand.node, stand.tuning.leave(stand.node.now, "aborted", "the daemon was stopped"))
    assert stand.cold.server.starts == starts
    stand.lock.release()
    live(stand.node, stand.cold.afresh().tick(stand.node.now))
    assert stand.incumbents()


def test_the_end_of_the_daemon_over_the_incumbent_is_a_stop(tmp_path: Path) -> None:
    stand = Stand(tmp_path)
    stand.until(lambda: stand.tuning.mind is not None)
    starts = stand.cold.server.starts
    live(stand.node, stand.tuning.leave(stand.node.now, "aborted", "the daemon was stopped"))
    assert stand.tuning.report is not None
    assert stand.tuning.report["decision"] == "aborted"
    assert stand.cold.server.starts == starts


def test_a_way_back_that_is_refused_is_said_and_made_as_soon_as_it_can_be(tmp_path: Path) -> None:
    stand = Stand(tmp_path)
    stand.until(stand.trial_is_measured)
    ground = stand.cold.parts.ground
    assert isinstance(ground, SimulatedGround)
    ground.disk_bytes = 0
    live(stand.node, stand.tuning.stop(stand.node.now, "aborted", "a person stopped it"))
    assert stand.tuning.report is not None
    assert "the incumbent did not come back: the disk has 0.00 GiB left" in stand.tuning.report["reasons"][-1]
    stand.lock.release()
    stand.cold.lane.look_again()
    live(stand.node, stand.cold.lane.tick(stand.node.now))
    assert stand.incumbents()


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


def test_a_command_that_cannot_be_read_ends_it_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand = Stand(tmp_path)

    async def settings() -> Settings:
        raise ServerError("a shell line: start the engine by its own argument list")

    monkeypatch.setattr(stand.cold.lane, "settings", settings)
    stand.until(lambda: False)
    assert stand.tuning.report is not None
    assert stand.tuning.report["decision"] == "aborted"
    assert "its own argument list" in stand.tuning.report["reasons"][0]


def test_observe_refuses(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="observe"):
        Stand(tmp_path, mode="observe")


def test_a_scenario_without_start_up_settings_is_refused() -> None:
    with pytest.raises(ValueError, match="no start-up settings"):
        outer_campaign(SCENARIOS["default"], 1, 4)
