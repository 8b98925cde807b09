"""After a crash of the daemon or a restart of the engine: nothing stays open, and the winner serves again."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from change.apply import change, reapply_promoted, recover, rollback
from change.engine import EngineError, EngineUnreachable
from change.journal import Journal
from change.lock import EngineLock, LockHeld
from store import Store, open_store
from store.models import JournalEntry
from tests.change.plain_engine import LAUNCH, PlainEngine

T = TypeVar("T")
NOW = 1_700_000_000.0
CANDIDATE = {"batch_max_tokens": 512.0}
UNDO = {"batch_max_tokens": 2048.0}


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(coroutine)


@pytest.fixture
def store(request: pytest.FixtureRequest) -> Store:
    opened = open_store("sqlite:///:memory:")
    request.addfinalizer(opened.close)
    return opened


@pytest.fixture
def journal(store: Store) -> Journal:
    return Journal(store, "http://127.0.0.1:8000")


@pytest.fixture
def engine() -> PlainEngine:
    return PlainEngine()


def left_open(journal: Journal, engine: PlainEngine, kind: str, state: str) -> int:
    """An entry as a crash leaves it."""
    entry = journal.open(kind, engine.boot_id, "campaign 3", CANDIDATE, UNDO, NOW, campaign_id=3)  # type: ignore[arg-type]
    for mark in {"intended": [], "applied": ["applied"], "verified": ["applied", "verified"]}[state]:
        journal.mark(entry, mark, NOW, CANDIDATE)  # type: ignore[arg-type]
    return entry


def serve(engine: PlainEngine, lease: float | None = None) -> None:
    run(engine.set_knobs(CANDIDATE, if_epoch=engine.epoch, lease_seconds=lease, revert_to=UNDO))


def promote(engine: PlainEngine, journal: Journal, **values: float) -> JournalEntry:
    return run(change(engine, journal, values, kind="promotion", actor="campaign 3", now=NOW, campaign_id=3))


class TestRecover:
    def test_has_nothing_to_do_without_open_entries_and_asks_no_engine(
        self, engine: PlainEngine, journal: Journal
    ) -> None:
        engine.down = True
        assert run(recover(engine, journal, NOW)) == []

    @pytest.mark.parametrize("state", ["intended", "applied", "verified"])
    @pytest.mark.parametrize("lease", [None, 20.0])
    def test_a_trial_goes_back_to_the_incumbent_for_good(
        self, engine: PlainEngine, journal: Journal, state: str, lease: float | None
    ) -> None:
        left_open(journal, engine, "trial", state)
        serve(engine, lease)
        (entry,) = run(recover(engine, journal, NOW))
        assert (entry.state, entry.outcome) == ("closed", "recovered")
        assert entry.reason == f"left {state} by a crash: the values from before were put back"
        assert (engine.values, engine.deadline) == (LAUNCH, None)
        assert journal.open_entries() == []

    def test_a_trial_whose_lease_ran_out_is_closed_without_touching_the_engine(
        self, engine: PlainEngine, journal: Journal
    ) -> None:
        left_open(journal, engine, "trial", "applied")
        serve(engine, 20.0)
        engine.now += 30
        epoch = run(engine.state()).epoch
        (entry,) = run(recover(engine, journal, NOW))
        assert entry.reason == "left applied by a crash: the engine held the values from before"
        assert engine.epoch == epoch

    def test_a_lease_that_would_lead_elsewhere_is_taken_off(
        self, engine: PlainEngine, journal: Journal
    ) -> None:
        left_open(journal, engine, "trial", "applied")
        run(engine.set_knobs(UNDO, if_epoch=0, lease_seconds=20.0, revert_to={"batch_max_tokens": 300}))
        run(recover(engine, journal, NOW))
        engine.now += 30
        assert run(engine.state()).values == LAUNCH

    def test_a_lease_that_runs_out_during_it_is_no_harm(self, engine: PlainEngine, journal: Journal) -> None:
        left_open(journal, engine, "trial", "applied")
        serve(engine, 20.0)

        def time_goes_by() -> None:
            engine.now += 15

        engine.meanwhile = time_goes_by
        engine.now += 10
        run(recover(engine, journal, NOW))
        assert engine.values == LAUNCH

    @pytest.mark.parametrize("kind", ["manual", "promotion", "rollback"])
    @pytest.mark.parametrize("state", ["intended", "applied"])
    def test_an_unverified_change_goes_back(
        self, engine: PlainEngine, journal: Journal, kind: str, state: str
    ) -> None:
        left_open(journal, engine, kind, state)
        serve(engine)
        (entry,) = run(recover(engine, journal, NOW))
        assert entry.outcome == "recovered"
        assert engine.values == LAUNCH
        assert journal.promoted() is None

    def test_a_verified_promotion_is_completed(self, engine: PlainEngine, journal: Journal) -> None:
        journal.note_launch(run(engine.state()), NOW)
        left_open(journal, engine, "promotion", "verified")
        serve(engine)
        (entry,) = run(recover(engine, journal, NOW))
        assert (entry.outcome, entry.reason) == ("done", "verified before a crash, completed at start")
        assert engine.values == {**LAUNCH, **CANDIDATE}
        row = journal.promoted()
        assert row is not None
        assert (row.values, row.launch, row.campaign_id) == (CANDIDATE, LAUNCH, 3)

    def test_a_verified_rollback_is_completed(self, engine: PlainEngine, journal: Journal) -> None:
        promotion = promote(engine, journal, **CANDIDATE)
        entry = journal.open("rollback", engine.boot_id, "cli", UNDO, CANDIDATE, NOW, undoes=[promotion.id])
        journal.mark(entry, "applied", NOW)
        run(engine.set_knobs(UNDO, if_epoch=engine.epoch, lease_seconds=None))
        journal.mark(entry, "verified", NOW)
        run(recover(engine, journal, NOW))
        assert journal.promoted() is None
        assert journal.standing(engine.boot_id) == []

    def test_a_verified_change_that_somebody_has_changed_since_is_left_alone(
        self, engine: PlainEngine, journal: Journal
    ) -> None:
        left_open(journal, engine, "manual", "verified")
        run(engine.set_knobs({"batch_max_tokens": 1024}, if_epoch=0, lease_seconds=None))
        (entry,) = run(recover(engine, journal, NOW))
        assert entry.outcome == "recovered"
        assert entry.reason == "the engine holds other values by now: left as they are"
        assert engine.values["batch_max_tokens"] == 1024

    def test_changes_of_an_earlier_boot_went_with_it(self, engine: PlainEngine, journal: Journal) -> None:
        for kind, state in (("trial", "applied"), ("promotion", "verified"), ("manual", "intended")):
            left_open(journal, engine, kind, state)
        engine.restart()
        entries = run(recover(engine, journal, NOW))
        assert {entry.outcome for entry in entries} == {"recovered"}
        assert all("restarted" in (entry.reason or "") for entry in entries)
        assert engine.epoch == 0
        assert journal.promoted() is None

    def test_a_trial_left_open_under_a_promotion_that_was_made_does_not_undo_it(
        self, engine: PlainEngine, journal: Journal
    ) -> None:
        left_open(journal, engine, "trial", "verified")
        promote(engine, journal, **CANDIDATE)
        (entry,) = run(recover(engine, journal, NOW))
        assert entry.reason == "left verified by a crash: a newer change stands in its place"
        assert engine.values == {**LAUNCH, **CANDIDATE}

    def test_only_the_knobs_that_a_newer_change_set_are_kept(
        self, engine: PlainEngine, journal: Journal
    ) -> None:
        journal.open("trial", engine.boot_id, "campaign 3", {**CANDIDATE, "max_num_seqs": 64}, LAUNCH, NOW)
        promote(engine, journal, **CANDIDATE)
        run(engine.set_knobs({"max_num_seqs": 64}, if_epoch=engine.epoch, lease_seconds=None))
        run(recover(engine, journal, NOW))
        assert engine.values == {**LAUNCH, **CANDIDATE}

    def test_several_go_back_newest_first(self, engine: PlainEngine, journal: Journal) -> None:
        left_open(journal, engine, "manual", "applied")
        journal.open("manual", engine.boot_id, "cli", {"batch_max_tokens": 300}, CANDIDATE, NOW)
        run(engine.set_knobs({"batch_max_tokens": 300}, if_epoch=0, lease_seconds=None))
        run(recover(engine, journal, NOW))
        assert engine.values == LAUNCH

    def test_an_engine_that_cannot_be_asked_leaves_them_for_the_next_time(
        self, engine: PlainEngine, journal: Journal
    ) -> None:
        left_open(journal, engine, "trial", "applied")
        serve(engine)
        engine.down = True
        with pytest.raises(EngineUnreachable):
            run(recover(engine, journal, NOW))
        assert len(journal.open_entries()) == 1
        engine.down = False
        run(recover(engine, journal, NOW))
        assert (engine.values, journal.open_entries()) == (LAUNCH, [])

    def test_an_engine_that_refuses_to_go_back_is_said(self, engine: PlainEngine, journal: Journal) -> None:
        left_open(journal, engine, "trial", "applied")
        serve(engine)
        engine.refuses = "ranks differ"
        with pytest.raises(EngineError, match="refuses to go back"):
            run(recover(engine, journal, NOW))

    def test_a_lock_held_by_another_daemon_leaves_its_changes_alone(
        self, engine: PlainEngine, journal: Journal, tmp_path: Path
    ) -> None:
        left_open(journal, engine, "trial", "applied")
        serve(engine, 20.0)
        with EngineLock(tmp_path, engine.boot_id, "trimtab run"), pytest.raises(LockHeld):
            run(recover(engine, journal, NOW, lock=EngineLock(tmp_path, engine.boot_id)))
        assert engine.values == {**LAUNCH, **CANDIDATE}


class TestReapplyPromoted:
    def test_nothing_is_promoted(self, engine: PlainEngine, journal: Journal) -> None:
        assert run(reapply_promoted(engine, journal, NOW)).outcome == "nothing"

    def test_the_same_flags_get_the_winner_back_through_the_journal(
        self, engine: PlainEngine, journal: Journal
    ) -> None:
        promote(engine, journal, **CANDIDATE)
        engine.restart()
        result = run(reapply_promoted(engine, journal, NOW))
        assert result.outcome == "reapplied"
        assert result.entry is not None
        assert (result.entry.kind, result.entry.outcome, result.entry.campaign_id) == ("reapply", "done", 3)
        assert result.entry.undo == UNDO
        assert engine.values == {**LAUNCH, **CANDIDATE}
        row = journal.promoted()
        assert row is not None
        assert (row.values, row.campaign_id) == (CANDIDATE, 3)

    def test_again_on_the_same_boot_it_finds_them_held(self, engine: PlainEngine, journal: Journal) -> None:
        promote(engine, journal, **CANDIDATE)
        assert run(reapply_promoted(engine, journal, NOW)).outcome == "held"

    def test_over_several_restarts(self, engine: PlainEngine, journal: Journal) -> None:
        promote(engine, journal, **CANDIDATE)
        for _ in range(3):
            engine.restart()
            assert run(reapply_promoted(engine, journal, NOW)).outcome == "reapplied"
        assert engine.values == {**LAUNCH, **CANDIDATE}

    def test_other_launch_values_are_never_overwritten_and_named(
        self, engine: PlainEngine, journal: Journal
    ) -> None:
        promote(engine, journal, **CANDIDATE)
        engine.restart(batch_max_tokens=4096)
        result = run(reapply_promoted(engine, journal, NOW))
        assert result.outcome == "other_flags"
        assert "batch_max_tokens is 4096, was 2048" in result.text
        assert engine.epoch == 0
        assert journal.promoted() is not None

    def test_other_ceilings_are_other_flags_too(self, engine: PlainEngine, journal: Journal) -> None:
        promote(engine, journal, **CANDIDATE)
        engine.restart()
        engine.ceilings["max_num_seqs"] = 128
        result = run(reapply_promoted(engine, journal, NOW))
        assert result.outcome == "other_flags"
        assert "the ceiling of max_num_seqs is 128, was 256" in result.text

    def test_an_engine_that_starts_with_the_winner_in_its_flags_holds_it(
        self, engine: PlainEngine, journal: Journal
    ) -> None:
        promote(engine, journal, **CANDIDATE)
        engine.restart(batch_max_tokens=512)
        assert run(reapply_promoted(engine, journal, NOW)).outcome == "held"

    def test_a_change_made_on_purpose_is_not_overruled(self, engine: PlainEngine, journal: Journal) -> None:
        promote(engine, journal, **CANDIDATE)
        run(change(engine, journal, UNDO, kind="manual", actor="cli", now=NOW))
        assert run(reapply_promoted(engine, journal, NOW)).outcome == "nothing"
        assert engine.values == LAUNCH

    def test_a_boot_first_seen_after_a_change_is_not_guessed(
        self, engine: PlainEngine, journal: Journal
    ) -> None:
        promote(engine, journal, **CANDIDATE)
        engine.restart()
        run(engine.set_knobs({"max_num_seqs": 64}, if_epoch=0, lease_seconds=None))
        result = run(reapply_promoted(engine, journal, NOW))
        assert result.outcome == "unknown"
        assert "not known" in result.text

    def test_a_promotion_whose_launch_values_nobody_saw_is_not_re_applied(self, journal: Journal) -> None:
        engine = PlainEngine(epoch=5)
        promote(engine, journal, **CANDIDATE)
        engine.restart()
        result = run(reapply_promoted(engine, journal, NOW))
        assert result.outcome == "other_flags"
        assert "not known from the time of the promotion" in result.text

    def test_values_that_no_longer_hold_are_said(self, engine: PlainEngine, journal: Journal) -> None:
        promote(engine, journal, **CANDIDATE)
        engine.restart()
        engine.ignores = frozenset(CANDIDATE)
        result = run(reapply_promoted(engine, journal, NOW))
        assert result.outcome == "refused"
        assert "batch_max_tokens was asked to be 512 and is 2048" in result.text
        assert engine.values == LAUNCH

    def test_can_be_rolled_back_which_ends_the_promotion(self, engine: PlainEngine, journal: Journal) -> None:
        promote(engine, journal, **CANDIDATE)
        engine.restart()
        run(reapply_promoted(engine, journal, NOW))
        run(rollback(engine, journal, 1, NOW))
        assert engine.values == LAUNCH
        assert journal.promoted() is None
        assert run(reapply_promoted(engine, journal, NOW)).outcome == "nothing"
