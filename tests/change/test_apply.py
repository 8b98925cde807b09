"""Changing an engine for good: verified or taken back, journaled first, and undone in reverse."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from change.apply import ChangeRefused, change
from change.engine import EngineError, EngineUnreachable, KnobAnswer, StaleEpoch
from change.journal import Journal, JournalUnwritable
from change.lock import EngineLock, LockHeld
from store import open_store
from tests.change.changing import NOW, manual, promote, run
from tests.change.plain_engine import LAUNCH, PlainEngine


class TestChange:
    def test_the_values_stay_and_the_entry_is_done(self, engine: PlainEngine, journal: Journal) -> None:
        entry = manual(engine, journal, batch_max_tokens=512, max_num_seqs=64)
        assert (entry.state, entry.outcome, entry.kind, entry.actor) == ("closed", "done", "manual", "cli")
        assert entry.change == entry.effective == {"batch_max_tokens": 512, "max_num_seqs": 64}
        assert entry.undo == {"batch_max_tokens": 2048, "max_num_seqs": 256}
        engine.now += 3600
        assert run(engine.state()).values == {**LAUNCH, "batch_max_tokens": 512, "max_num_seqs": 64}
        assert journal.open_entries() == []

    def test_is_journaled_before_it_is_made_and_under_a_lease_until_it_is_verified(
        self, engine: PlainEngine, journal: Journal
    ) -> None:
        seen: list[tuple[str, bool]] = []

        def answering(answer: KnobAnswer) -> KnobAnswer:
            (entry,) = journal.open_entries()
            seen.append((entry.state, engine.deadline is not None))
            return answer

        engine.answering = answering
        manual(engine, journal, batch_max_tokens=512)
        assert seen == [("intended", True), ("applied", False)]

    def test_a_knob_the_engine_ignores_is_found_and_all_is_taken_back(self, journal: Journal) -> None:
        engine = PlainEngine(ignores=frozenset({"watermark"}))
        entry = manual(engine, journal, batch_max_tokens=512, watermark=0.1)
        assert entry.outcome == "undone"
        assert entry.reason == "watermark was asked to be 0.1 and is 0; the values from before were put back"
        assert engine.values == LAUNCH
        assert engine.deadline is None

    def test_a_knob_that_reads_back_otherwise_than_answered_is_found(self, journal: Journal) -> None:
        engine = PlainEngine(
            ignores=frozenset({"watermark"}),
            answering=lambda answer: replace(answer, effective=answer.requested),
        )
        assert manual(engine, journal, watermark=0.1).outcome == "undone"

    def test_an_engine_that_refuses_leaves_an_undone_entry_with_its_reason(self, journal: Journal) -> None:
        engine = PlainEngine(refuses="ranks differ")
        entry = manual(engine, journal, batch_max_tokens=512)
        assert entry.outcome == "undone"
        assert entry.reason is not None
        assert "ranks differ" in entry.reason

    def test_draining_is_applied(self, journal: Journal) -> None:
        engine = PlainEngine(answering=lambda answer: replace(answer, status="draining"))
        assert manual(engine, journal, max_num_seqs=2).outcome == "done"

    @pytest.mark.parametrize(
        ("values", "complaint"),
        [
            ({}, "nothing to change"),
            ({"block_size": 128}, "this engine has no block_size"),
            ({"batch_max_tokens": 9000}, "its ceiling"),
            ({"batch_max_tokens": 100}, "the least"),
            ({"max_num_seqs": 1.5}, "whole number"),
        ],
    )
    def test_what_cannot_be_valid_is_refused_before_anything_is_written(
        self, engine: PlainEngine, journal: Journal, values: dict[str, float], complaint: str
    ) -> None:
        with pytest.raises(ChangeRefused, match=complaint):
            run(change(engine, journal, values, kind="manual", actor="cli", now=NOW))
        assert journal.last(1) == []
        assert engine.epoch == 0

    def test_a_problem_that_was_there_before_does_not_stand_in_the_way(
        self, engine: PlainEngine, journal: Journal
    ) -> None:
        engine.values["watermark"] = 0.7
        assert manual(engine, journal, batch_max_tokens=512).outcome == "done"

    def test_an_unknown_scheduler_is_left_alone(self, journal: Journal) -> None:
        with pytest.raises(ChangeRefused, match="scheduler"):
            manual(PlainEngine(scheduler_known=False), journal, batch_max_tokens=512)

    def test_a_trial_under_way_is_not_taken_for_the_incumbent(
        self, engine: PlainEngine, journal: Journal
    ) -> None:
        run(engine.set_knobs({"batch_max_tokens": 512}, if_epoch=0, lease_seconds=20))
        with pytest.raises(ChangeRefused, match="a trial is under way"):
            manual(engine, journal, max_num_seqs=64)

    def test_a_promotion_out_of_a_trial_names_its_own_undo(
        self, engine: PlainEngine, journal: Journal
    ) -> None:
        run(engine.set_knobs({"batch_max_tokens": 512}, if_epoch=0, lease_seconds=20))
        entry = run(
            change(
                engine,
                journal,
                {"batch_max_tokens": 512},
                kind="promotion",
                actor="campaign 3",
                now=NOW,
                undo={"batch_max_tokens": 2048},
            )
        )
        assert entry.outcome == "done"
        assert entry.undo == {"batch_max_tokens": 2048}
        assert engine.deadline is None

    def test_an_engine_that_is_gone_changes_nothing(self, engine: PlainEngine, journal: Journal) -> None:
        engine.down = True
        with pytest.raises(EngineUnreachable):
            manual(engine, journal, batch_max_tokens=512)
        assert journal.last(1) == []

    def test_an_unwritable_journal_means_no_change(self, tmp_path: Path, engine: PlainEngine) -> None:
        open_store(f"sqlite:///{tmp_path}/x.db").close()
        store = open_store(f"sqlite:///file:{tmp_path}/x.db?mode=ro&uri=true")
        with pytest.raises(JournalUnwritable):
            manual(engine, Journal(store, "e"), batch_max_tokens=512)
        store.close()
        assert (engine.values, engine.epoch) == (LAUNCH, 0)

    def test_a_journal_that_becomes_unwritable_half_way_brings_the_engine_back(
        self, tmp_path: Path, engine: PlainEngine
    ) -> None:
        store = open_store(f"sqlite:///{tmp_path}/x.db")
        journal = Journal(store, "e")
        mark = journal.mark

        def full_disk(*args: Any, **kwargs: Any) -> None:
            event.listen(store._engine, "begin", lambda c: c.exec_driver_sql("PRAGMA query_only = 1"))
            mark(*args, **kwargs)

        journal.mark = full_disk  # type: ignore[method-assign]
        with pytest.raises(JournalUnwritable) as caught:
            manual(engine, journal, batch_max_tokens=512)
        assert engine.values == LAUNCH
        assert engine.deadline is None
        assert "stays open" in caught.value.__notes__[0]
        assert [entry.state for entry in journal.open_entries()] == ["intended"]
        store.close()

    def test_an_answer_that_never_came_is_taken_back(self, engine: PlainEngine, journal: Journal) -> None:
        def lost(answer: KnobAnswer) -> KnobAnswer:
            engine.answering = None
            raise EngineUnreachable("no answer within 5 s")

        engine.answering = lost
        with pytest.raises(EngineUnreachable):
            manual(engine, journal, batch_max_tokens=512)
        assert engine.values == LAUNCH
        (entry,) = journal.last(1)
        assert entry.outcome == "undone"
        assert entry.reason == "no answer within 5 s; the values from before were put back"

    def test_a_request_that_arrives_late_goes_back_by_itself(self, journal: Journal) -> None:
        """The client gave up on it, found the engine unchanged and closed the entry."""
        late: list[Coroutine[Any, Any, KnobAnswer]] = []

        class Late(PlainEngine):
            def set_knobs(self, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, KnobAnswer]:
                call = super().set_knobs(*args, **kwargs)
                if late:
                    return call
                late.append(call)
                raise EngineUnreachable("no answer within 5 s")

        engine = Late()
        with pytest.raises(EngineUnreachable):
            manual(engine, journal, batch_max_tokens=512)
        run(late[0])
        assert engine.values["batch_max_tokens"] == 512
        engine.now += 31
        assert run(engine.state()).values == LAUNCH

    def test_somebody_elses_change_meanwhile_is_not_overwritten(
        self, engine: PlainEngine, journal: Journal
    ) -> None:
        def somebody_else() -> None:
            if engine.epoch == 0:
                engine.epoch, engine.values["watermark"] = 1, 0.2

        engine.meanwhile = somebody_else
        with pytest.raises(StaleEpoch):
            manual(engine, journal, batch_max_tokens=512)
        assert engine.values == {**LAUNCH, "watermark": 0.2}
        assert journal.open_entries() == []

    def test_a_restart_half_way_is_noticed(self, engine: PlainEngine, journal: Journal) -> None:
        def crash(answer: KnobAnswer) -> KnobAnswer:
            engine.restart()
            return answer

        engine.answering = crash
        entry = manual(engine, journal, batch_max_tokens=512)
        assert entry.outcome == "undone"
        assert entry.reason == "the engine restarted; the engine has restarted since"
        assert (engine.values, engine.epoch) == (LAUNCH, 0)

    def test_an_engine_that_will_not_go_back_leaves_its_entry_open(
        self, engine: PlainEngine, journal: Journal
    ) -> None:
        def stuck(answer: KnobAnswer) -> KnobAnswer:
            engine.refuses = "ranks differ"
            return (
                answer if answer.status == "refused" else replace(answer, effective={"batch_max_tokens": 640})
            )

        engine.answering = stuck
        with pytest.raises(EngineError) as caught:
            manual(engine, journal, batch_max_tokens=512)
        assert "refuses to go back: ranks differ" in str(caught.value)
        assert [entry.state for entry in journal.open_entries()] == ["applied"]


class TestLock:
    def test_is_held_for_the_change_and_given_back(
        self, engine: PlainEngine, journal: Journal, tmp_path: Path
    ) -> None:
        lock = EngineLock(tmp_path, engine.boot_id)
        assert manual(engine, journal, lock, batch_max_tokens=512).outcome == "done"
        assert not lock.held

    def test_of_the_caller_is_kept(self, engine: PlainEngine, journal: Journal, tmp_path: Path) -> None:
        with EngineLock(tmp_path, engine.boot_id) as lock:
            manual(engine, journal, lock, batch_max_tokens=512)
            assert lock.held

    def test_held_by_another_means_no_change(
        self, engine: PlainEngine, journal: Journal, tmp_path: Path
    ) -> None:
        with (
            EngineLock(tmp_path, engine.boot_id, "trimtab tune"),
            pytest.raises(LockHeld, match="trimtab tune"),
        ):
            manual(engine, journal, EngineLock(tmp_path, engine.boot_id), batch_max_tokens=512)
        assert engine.epoch == 0


class TestPromotion:
    def test_is_recorded_with_what_it_was_proved_under(self, engine: PlainEngine, journal: Journal) -> None:
        promote(engine, journal, 3, batch_max_tokens=512)
        row = journal.promoted()
        assert row is not None
        assert (row.values, row.campaign_id) == ({"batch_max_tokens": 512}, 3)
        assert (row.launch, row.ceilings) == (LAUNCH, engine.ceilings)

    def test_a_second_one_adds_to_the_first(self, engine: PlainEngine, journal: Journal) -> None:
        promote(engine, journal, 3, batch_max_tokens=512)
        promote(engine, journal, 4, max_num_seqs=64)
        row = journal.promoted()
        assert row is not None
        assert (row.values, row.campaign_id) == ({"batch_max_tokens": 512, "max_num_seqs": 64}, 4)

    def test_one_that_does_not_hold_is_not_recorded(self, journal: Journal) -> None:
        engine = PlainEngine(ignores=frozenset({"watermark"}))
        promote(engine, journal, 3, watermark=0.1)
        assert journal.promoted() is None

    def test_a_manual_change_is_not_a_promotion(self, engine: PlainEngine, journal: Journal) -> None:
        manual(engine, journal, batch_max_tokens=512)
        assert journal.promoted() is None
