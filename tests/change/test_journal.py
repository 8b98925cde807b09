"""The journal: written before the change, one way forward, and no change when it cannot be written."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import event, text

from change.engine import EngineState
from change.journal import NEXT, Journal, JournalUnwritable, Promotion, WrongTransition
from store import Store, StoreError, open_store
from tests.change.plain_engine import PlainEngine

PROMOTION = Promotion(launch={"a": 1}, ceilings={"a": 9}, values={"a": 3}, campaign_id=7)


@pytest.fixture
def store(request: pytest.FixtureRequest) -> Store:
    opened = open_store("sqlite:///:memory:")
    request.addfinalizer(opened.close)
    return opened


@pytest.fixture
def journal(store: Store) -> Journal:
    return Journal(store, "http://127.0.0.1:8000")


def opened(journal: Journal, boot_id: str = "b1", kind: str = "manual", undoes: tuple[int, ...] = ()) -> int:
    return journal.open(kind, boot_id, "cli", {"a": 2}, {"a": 1}, 10.0, undoes=undoes)  # type: ignore[arg-type]


def done(journal: Journal, boot_id: str = "b1", kind: str = "manual", undoes: tuple[int, ...] = ()) -> int:
    entry = opened(journal, boot_id, kind, undoes)
    journal.mark(entry, "applied", 11.0)
    journal.mark(entry, "verified", 12.0)
    journal.close(entry, "done", 13.0)
    return entry


class TestOneEntry:
    def test_holds_the_whole_life_of_a_change(self, journal: Journal) -> None:
        number = journal.open("trial", "b1", "campaign 3", {"a": 2}, {"a": 1}, 10.0, campaign_id=3)
        journal.mark(number, "applied", 11.0, {"a": 2})
        journal.mark(number, "verified", 12.0)
        journal.close(number, "done", 13.0, "because")
        entry = journal.entry(number)
        assert (entry.kind, entry.boot_id, entry.actor, entry.campaign_id) == ("trial", "b1", "campaign 3", 3)
        assert (entry.change, entry.undo, entry.effective) == ({"a": 2}, {"a": 1}, {"a": 2})
        assert (entry.intended, entry.applied, entry.verified, entry.closed) == (10.0, 11.0, 12.0, 13.0)
        assert (entry.state, entry.outcome, entry.reason) == ("closed", "done", "because")

    def test_a_change_that_was_never_verified_cannot_be_done(self, journal: Journal) -> None:
        entry = opened(journal)
        with pytest.raises(WrongTransition, match="never verified"):
            journal.close(entry, "done", 11.0)
        journal.mark(entry, "applied", 11.0)
        with pytest.raises(WrongTransition, match="never verified"):
            journal.close(entry, "done", 12.0)
        assert journal.entry(entry).state == "applied"

    @pytest.mark.parametrize("outcome", ["undone", "recovered"])
    @pytest.mark.parametrize("marks", [(), ("applied",), ("applied", "verified")])
    def test_can_be_taken_back_from_any_state(
        self, journal: Journal, marks: tuple[str, ...], outcome: str
    ) -> None:
        entry = opened(journal)
        for mark in marks:
            journal.mark(entry, mark, 11.0)  # type: ignore[arg-type]
        journal.close(entry, outcome, 12.0)  # type: ignore[arg-type]
        assert journal.entry(entry).outcome == outcome

    def test_nothing_happens_to_a_closed_one(self, journal: Journal) -> None:
        entry = done(journal)
        with pytest.raises(WrongTransition, match="is closed"):
            journal.close(entry, "undone", 14.0, promotes=PROMOTION)
        with pytest.raises(WrongTransition, match="is closed"):
            journal.mark(entry, "applied", 14.0)
        assert journal.entry(entry).outcome == "done"
        assert journal.promoted() is None

    @settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.lists(st.sampled_from(["applied", "verified", "closed"]), max_size=4))
    def test_only_goes_where_its_state_leads(self, journal: Journal, steps: list[str]) -> None:
        entry = opened(journal)
        state = "intended"
        for step in steps:
            allowed = step in NEXT[state]
            try:
                if step == "closed":
                    journal.close(entry, "undone", 11.0)
                else:
                    journal.mark(entry, step, 11.0)  # type: ignore[arg-type]
            except WrongTransition:
                assert not allowed
            else:
                assert allowed
                state = step
            assert journal.entry(entry).state == state

    @pytest.mark.parametrize("value", [float("nan"), float("inf")])
    def test_takes_no_number_that_is_not_finite(self, journal: Journal, value: float) -> None:
        with pytest.raises(ValueError, match="finite"):
            journal.open("manual", "b1", "cli", {"a": value}, {"a": 1}, 10.0)
        assert journal.last(1) == []

    def test_of_an_unknown_kind_is_refused(self, journal: Journal) -> None:
        with pytest.raises(ValueError, match="expected one of"):
            opened(journal, kind="whim")

    def test_that_takes_nothing_back_has_a_null_there(self, journal: Journal, store: Store) -> None:
        opened(journal)
        with store.reading() as session:
            assert (
                session.execute(text("SELECT count(*) FROM journal WHERE undoes IS NULL")).scalar_one() == 1
            )


class TestReading:
    def test_open_entries_oldest_first_and_last_newest_first(self, journal: Journal) -> None:
        first, closed, second = opened(journal), done(journal), opened(journal)
        assert [e.id for e in journal.open_entries()] == [first, second]
        assert [e.id for e in journal.last(2)] == [second, closed]

    def test_another_engines_entries_are_not_seen(self, journal: Journal, store: Store) -> None:
        other = Journal(store, "http://127.0.0.1:8001")
        opened(other)
        done(other)
        assert journal.open_entries() == journal.last(9) == journal.standing("b1") == []

    def test_what_stands_is_done_on_this_boot_and_not_taken_back(self, journal: Journal) -> None:
        done(journal, "b0")
        kept, taken = done(journal), done(journal)
        journal.close(opened(journal), "undone", 14.0)
        done(journal, kind="rollback", undoes=(taken,))
        assert [e.id for e in journal.standing("b1")] == [kept]

    def test_a_rollback_that_was_itself_undone_takes_nothing_back(self, journal: Journal) -> None:
        kept = done(journal)
        journal.close(opened(journal, kind="rollback", undoes=(kept,)), "undone", 14.0)
        assert [e.id for e in journal.standing("b1")] == [kept]


class TestPromoted:
    def test_is_set_replaced_and_cleared(self, journal: Journal) -> None:
        journal.set_promoted(PROMOTION, 10.0)
        journal.set_promoted(Promotion({}, {}, {"a": 4}), 11.0)
        row = journal.promoted()
        assert row is not None
        assert (row.values, row.campaign_id, row.time) == ({"a": 4}, None, 11.0)
        journal.clear_promoted()
        journal.clear_promoted()
        assert journal.promoted() is None

    def test_is_set_and_cleared_with_the_entry_it_belongs_to(self, journal: Journal) -> None:
        for promotes, clears in ((PROMOTION, False), (None, True)):
            entry = opened(journal)
            journal.mark(entry, "applied", 11.0)
            journal.mark(entry, "verified", 12.0)
            journal.close(entry, "done", 13.0, promotes=promotes, clears_promoted=clears)
            row = journal.promoted()
            assert (row is None) is clears
            if row is not None:
                assert (row.launch, row.ceilings, row.values) == ({"a": 1}, {"a": 9}, {"a": 3})

    def test_is_of_one_engine(self, journal: Journal, store: Store) -> None:
        journal.set_promoted(PROMOTION, 10.0)
        other = Journal(store, "http://127.0.0.1:8001")
        assert other.promoted() is None
        assert other.promoted(journal.engine) is not None


class TestLaunch:
    def state(self, engine: PlainEngine) -> EngineState:
        return asyncio.run(engine.state())

    def test_is_what_the_engine_holds_before_anybody_changed_it(self, journal: Journal) -> None:
        engine = PlainEngine()
        launch = journal.note_launch(self.state(engine), 10.0)
        assert launch is not None
        assert launch.values == engine.launch
        assert launch.ceilings == engine.ceilings
        assert launch.engine_version == "0.32.0"

    def test_does_not_change_with_the_engine(self, journal: Journal) -> None:
        engine = PlainEngine()
        journal.note_launch(self.state(engine), 10.0)
        engine.values["batch_max_tokens"], engine.epoch = 512, 1
        launch = journal.note_launch(self.state(engine), 20.0)
        assert launch is not None
        assert (launch.values["batch_max_tokens"], launch.time) == (2048, 10.0)

    def test_is_unknown_for_an_engine_first_seen_after_a_change(self, journal: Journal) -> None:
        engine = PlainEngine(epoch=1)
        assert journal.note_launch(self.state(engine), 10.0) is None
        assert journal.launch(engine.boot_id) is None


class TestUnwritable:
    def full(self, tmp_path: Path) -> tuple[Journal, int, Store]:
        """A journal with one open entry on a disk that has just become full."""
        store = open_store(f"sqlite:///{tmp_path}/x.db")
        journal = Journal(store, "e")
        entry = opened(journal)
        event.listen(
            store._engine, "begin", lambda connection: connection.exec_driver_sql("PRAGMA max_page_count = 1")
        )
        return journal, entry, store

    def test_a_full_disk_says_that_nothing_may_be_changed(self, tmp_path: Path) -> None:
        journal, _, store = self.full(tmp_path)
        with pytest.raises(JournalUnwritable, match=r"nothing may be changed.*full"):
            for _ in itertools.repeat(None, 100):
                journal.open("manual", "b1", "cli" * 500, {"a": 2}, {"a": 1}, 10.0)
        assert journal.open_entries()
        store.close()

    def test_a_file_that_may_only_be_read(self, tmp_path: Path) -> None:
        first = open_store(f"sqlite:///{tmp_path}/x.db")
        entry = opened(Journal(first, "e"))
        first.close()
        store = open_store(f"sqlite:///file:{tmp_path}/x.db?mode=ro&uri=true")
        journal = Journal(store, "e")
        with pytest.raises(JournalUnwritable, match="cannot be written"):
            opened(journal)
        with pytest.raises(JournalUnwritable, match="cannot be written"):
            journal.mark(entry, "applied", 11.0)
        with pytest.raises(JournalUnwritable, match="cannot be written"):
            journal.close(entry, "undone", 11.0)
        with pytest.raises(JournalUnwritable, match="cannot be written"):
            journal.set_promoted(PROMOTION, 11.0)
        assert [e.state for e in journal.open_entries()] == ["intended"]
        store.close()

    def test_is_a_store_error_too(self) -> None:
        assert issubclass(JournalUnwritable, StoreError)
