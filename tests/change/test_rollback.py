"""Taking changes back: rollback in reverse, detach to the launch values."""

from __future__ import annotations

import pytest

from change.apply import ChangeRefused, detach, rollback
from change.journal import Journal
from tests.change.changing import NOW, manual, promote, run
from tests.change.plain_engine import LAUNCH, PlainEngine


class TestRollback:
    def test_takes_back_the_last_ones_in_reverse_and_can_go_on(
        self, engine: PlainEngine, journal: Journal
    ) -> None:
        manual(engine, journal, batch_max_tokens=1024)
        second = manual(engine, journal, batch_max_tokens=512, max_num_seqs=64)
        third = manual(engine, journal, max_num_seqs=32)
        entry = run(rollback(engine, journal, 2, NOW))
        assert (entry.kind, entry.outcome, entry.undoes) == ("rollback", "done", [second.id, third.id])
        assert engine.values == {**LAUNCH, "batch_max_tokens": 1024}
        run(rollback(engine, journal, 1, NOW))
        assert engine.values == LAUNCH
        with pytest.raises(ChangeRefused, match="only 0 changes stand"):
            run(rollback(engine, journal, 1, NOW))

    def test_leaves_out_what_was_undone_already(self, engine: PlainEngine, journal: Journal) -> None:
        manual(engine, journal, batch_max_tokens=1024)
        engine.refuses = "not now"
        manual(engine, journal, batch_max_tokens=512)
        engine.refuses = None
        run(rollback(engine, journal, 1, NOW))
        assert engine.values == LAUNCH

    def test_of_changes_of_an_earlier_boot_is_refused(self, engine: PlainEngine, journal: Journal) -> None:
        manual(engine, journal, batch_max_tokens=1024)
        engine.restart()
        with pytest.raises(ChangeRefused, match="only 0 changes stand since the engine started"):
            run(rollback(engine, journal, 1, NOW))

    @pytest.mark.parametrize("n", [0, -1])
    def test_of_no_changes_is_refused(self, engine: PlainEngine, journal: Journal, n: int) -> None:
        with pytest.raises(ChangeRefused, match="expected 1 or more"):
            run(rollback(engine, journal, n, NOW))

    def test_of_a_promotion_leaves_the_one_before_promoted(
        self, engine: PlainEngine, journal: Journal
    ) -> None:
        promote(engine, journal, 3, batch_max_tokens=1024)
        promote(engine, journal, 4, batch_max_tokens=512)
        run(rollback(engine, journal, 1, NOW))
        row = journal.promoted()
        assert row is not None
        assert (row.values, row.campaign_id) == ({"batch_max_tokens": 1024}, 3)
        run(rollback(engine, journal, 1, NOW))
        assert journal.promoted() is None
        assert engine.values == LAUNCH

    def test_of_a_manual_change_leaves_the_promotion(self, engine: PlainEngine, journal: Journal) -> None:
        promote(engine, journal, 3, batch_max_tokens=1024)
        manual(engine, journal, max_num_seqs=64)
        run(rollback(engine, journal, 1, NOW))
        assert journal.promoted() is not None

    def test_goes_back_below_a_floor_that_rose_meanwhile(self, journal: Journal) -> None:
        """The floor of the token budget follows the running cap; only the engine can judge the whole config."""
        engine = PlainEngine()
        engine.values.update(batch_max_tokens=64, max_num_seqs=8)
        manual(engine, journal, batch_max_tokens=2048, max_num_seqs=256)
        run(rollback(engine, journal, 1, NOW))
        assert engine.values["batch_max_tokens"] == 64


class TestDetach:
    def test_gives_the_launch_values_back_forgets_the_promotion_and_opens_the_gate(
        self, engine: PlainEngine, journal: Journal
    ) -> None:
        promote(engine, journal, 3, batch_max_tokens=512)
        manual(engine, journal, max_num_seqs=64)
        run(engine.gate("closed", lease_seconds=100, retry_after=1))
        entry = run(detach(engine, journal, NOW))
        assert (entry.kind, entry.outcome) == ("detach", "done")
        assert engine.values == LAUNCH
        assert run(engine.state()).gate == "open"
        assert journal.promoted() is None

    def test_of_an_engine_at_its_launch_values_still_forgets_the_promotion(
        self, engine: PlainEngine, journal: Journal
    ) -> None:
        promote(engine, journal, 3, batch_max_tokens=512)
        engine.restart()
        run(detach(engine, journal, NOW))
        assert journal.promoted() is None
        assert engine.epoch == 0

    def test_of_an_engine_whose_launch_values_nobody_saw_is_refused(self, journal: Journal) -> None:
        engine = PlainEngine(epoch=5)
        with pytest.raises(ChangeRefused, match="restart it"):
            run(detach(engine, journal, NOW))

    def test_can_be_rolled_back(self, engine: PlainEngine, journal: Journal) -> None:
        promote(engine, journal, 3, batch_max_tokens=512)
        run(detach(engine, journal, NOW))
        run(rollback(engine, journal, 1, NOW))
        assert engine.values["batch_max_tokens"] == 512
        row = journal.promoted()
        assert row is not None
        assert row.values == {"batch_max_tokens": 512}

    def test_a_promotion_after_it_stands_alone(self, engine: PlainEngine, journal: Journal) -> None:
        promote(engine, journal, 3, batch_max_tokens=512)
        run(detach(engine, journal, NOW))
        promote(engine, journal, 4, max_num_seqs=64)
        row = journal.promoted()
        assert row is not None
        assert row.values == {"max_num_seqs": 64}
