"""Hot changes of a playbook on a simulated engine: what is set, what comes back, what is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from change import apply as changes
from change.journal import Promotion
from change.lock import EngineLock
from daemon.acting.deed import RunContext
from rules.actions import ActionRefused
from tests.daemon.acting.hand_stand import RUN, HandStand


@pytest.fixture
def here(tmp_path: Path) -> HandStand:
    return HandStand(tmp_path)


def test_half_the_sequences_are_set_for_good_and_put_back(here: HandStand) -> None:
    before = here.values()["max_num_seqs"]
    plan, done = here.do(here.hot, "set_knobs", max_num_seqs="x0.5")
    assert (plan.blast, plan.reversible) == ("engine", True)
    assert f"from {before:g} to {before / 2:g}" in plan.text
    assert done.ok
    assert here.values()["max_num_seqs"] == before / 2
    state = here.stand.node.control.read_state()
    assert state.lease_remaining_seconds is None
    entry = here.stand.journal.last(1)[0]
    assert (entry.actor, entry.outcome, entry.id) == (RUN.actor, "done", done.figures["journal_entry"])
    back = here.undo(here.hot, plan.undo)
    assert back.ok
    assert here.values()["max_num_seqs"] == before
    assert here.stand.journal.standing(state.boot_id) == []


def test_undone_twice_is_as_good_as_once(here: HandStand) -> None:
    plan, _ = here.do(here.hot, "set_knobs", max_num_seqs="x0.5")
    here.undo(here.hot, plan.undo)
    entries = len(here.stand.journal.last(100))
    again = here.undo(here.hot, plan.undo)
    assert again.ok
    assert "nothing" in again.text
    assert len(here.stand.journal.last(100)) == entries


def test_an_act_that_a_crash_kept_from_being_made_has_nothing_to_undo(here: HandStand) -> None:
    before = here.values()
    _, plan = here.plan(here.hot, "set_knobs", max_num_seqs="x0.5")
    assert here.undo(here.hot, plan.undo).ok
    assert here.values() == before


def test_what_a_person_set_since_is_left_as_it_is(here: HandStand) -> None:
    plan, _ = here.do(here.hot, "set_knobs", max_num_seqs="x0.5")
    control = here.stand.node.control
    here.stand.live(
        changes.change(
            control, here.stand.journal, {"max_num_seqs": 7}, kind="manual", actor="operator", now=here.now
        )
    )
    back = here.undo(here.hot, plan.undo)
    assert back.ok
    assert "somebody" in back.text
    assert here.values()["max_num_seqs"] == 7


def test_after_a_restart_that_took_nothing_along_nothing_is_put_back(here: HandStand) -> None:
    plan, _ = here.do(here.hot, "set_knobs", max_num_seqs="x0.5")
    here.stand.restart(max_num_seqs=64)
    now = here.values()
    back = here.undo(here.hot, plan.undo)
    assert back.ok
    assert "restarted" in back.text
    assert here.values() == now


def test_who_holds_the_engine_is_not_interrupted(here: HandStand) -> None:
    action, plan = here.plan(here.hot, "set_knobs", max_num_seqs="x0.5")
    boot_id = here.stand.node.control.read_state().boot_id
    with (
        EngineLock(here.locks, boot_id, "an order of operator"),
        pytest.raises(ActionRefused, match="operator"),
    ):
        here.stand.live(here.hot.act(action, plan, RUN, here.now))
    assert here.stand.journal.last(10) == []


def test_an_engine_that_is_down_is_refused_and_not_taken_for_changed(here: HandStand) -> None:
    here.stand.node.control.down = True
    with pytest.raises(ActionRefused, match="cannot be changed"):
        here.plan(here.hot, "set_knobs", max_num_seqs="x0.5")


def test_what_is_in_force_already_is_no_act(here: HandStand) -> None:
    ceiling = here.stand.node.control.read_state().ceilings["max_num_seqs"]
    here.do(here.hot, "set_knobs", max_num_seqs=ceiling / 2)
    with pytest.raises(ActionRefused, match="in force already"):
        here.plan(here.hot, "set_knobs", max_num_seqs=ceiling / 2)


def test_two_acts_of_one_run_come_back_one_by_one(here: HandStand) -> None:
    first, _ = here.do(here.hot, "set_knobs", max_num_seqs="x0.5")
    before = here.values()["max_num_seqs"]
    second, _ = here.do(here.hot, "set_knobs", max_num_seqs="x0.5")
    here.undo(here.hot, second.undo)
    assert here.values()["max_num_seqs"] == before
    here.undo(here.hot, first.undo)
    assert here.values()["max_num_seqs"] == 2 * before


class TestExpandBatch:
    def halved(self, here: HandStand) -> dict[str, float]:
        here.do(
            here.hot, "set_knobs", RunContext("run-1", "x"), batch_max_tokens="x0.25", max_num_seqs="x0.25"
        )
        return here.values()

    def test_it_enlarges_both_limits_inside_their_ceilings(self, here: HandStand) -> None:
        before = self.halved(here)
        here.read_kv(0.4)
        plan, done = here.do(here.expand, "expand_batch", factor=2)
        assert done.ok
        assert done.figures["kv_cache_usage_ratio"] == 0.4
        assert (plan.seen, "KV" in plan.text) == ("KV cache 40% full", False)
        after = here.values()
        assert after["batch_max_tokens"] == 2 * before["batch_max_tokens"]
        assert after["max_num_seqs"] == 2 * before["max_num_seqs"]
        here.undo(here.expand, plan.undo)
        assert here.values() == before

    def test_with_a_full_kv_cache_a_larger_batch_is_refused(self, here: HandStand) -> None:
        self.halved(here)
        here.read_kv(0.93)
        with pytest.raises(ActionRefused, match="93% full"):
            here.plan(here.expand, "expand_batch", factor=2)

    def test_unknown_is_not_empty(self, here: HandStand) -> None:
        self.halved(here)
        with pytest.raises(ActionRefused, match="not known"):
            here.plan(here.expand, "expand_batch", factor=2)

    def test_a_cache_that_filled_since_the_plan_is_seen(self, here: HandStand) -> None:
        before = self.halved(here)
        here.read_kv(0.4)
        action, plan = here.plan(here.expand, "expand_batch", factor=2)
        here.stand.node.advance(here.now + 1)
        here.read_kv(0.95)
        with pytest.raises(ActionRefused, match="by now"):
            here.stand.live(here.expand.act(action, plan, RUN, here.now))
        assert here.values() == before

    def test_what_was_proved_is_not_left_by_far(self, here: HandStand) -> None:
        before = self.halved(here)
        here.stand.journal.set_promoted(Promotion({}, {}, {"max_num_seqs": before["max_num_seqs"]}), here.now)
        here.read_kv(0.1)
        here.do(here.expand, "expand_batch", factor=4)
        after = here.values()
        assert after["max_num_seqs"] == 2 * before["max_num_seqs"]
        assert after["batch_max_tokens"] == 4 * before["batch_max_tokens"]

    @pytest.mark.parametrize("by", [0.5, 1, 5, "much"])
    def test_a_factor_that_enlarges_nothing_is_refused(self, here: HandStand, by: object) -> None:
        here.read_kv(0.1)
        with pytest.raises(ActionRefused, match="expected"):
            here.plan(here.expand, "expand_batch", factor=by)


def test_factors_of_many_alerts_end_at_an_eighth_of_what_the_engine_started_with(here: HandStand) -> None:
    before = here.values()["max_num_seqs"]
    here.do(here.hot, "set_knobs", max_num_seqs="x0.25")
    here.do(here.hot, "set_knobs", max_num_seqs="x0.25")
    assert here.values()["max_num_seqs"] == before / 8
    with pytest.raises(ActionRefused, match="or its bound"):
        here.plan(here.hot, "set_knobs", max_num_seqs="x0.25")


def test_they_end_at_an_eighth_of_what_was_promoted(here: HandStand) -> None:
    here.stand.journal.set_promoted(Promotion({}, {}, {"max_num_seqs": 64.0}), here.now)
    here.do(here.hot, "set_knobs", max_num_seqs=16)
    here.do(here.hot, "set_knobs", max_num_seqs="x0.25")
    assert here.values()["max_num_seqs"] == 8


class TestAnotherEngineThanPlanned:
    def test_what_a_trial_holds_is_not_what_an_undo_leads_back_to(self, here: HandStand) -> None:
        incumbent, boot_id = here.values()["max_num_seqs"], here.stand.node.control.read_state().boot_id
        undo = {"max_num_seqs": incumbent}
        entry = here.stand.journal.open(
            "trial", boot_id, "campaign 1", {"max_num_seqs": 32.0}, undo, here.now
        )
        self.serve(here, 32.0, lease=30.0)
        action, plan = here.plan(here.hot, "set_knobs", max_num_seqs="x0.5")
        assert plan.undo is not None
        assert plan.undo["values"] == undo
        assert plan.undo["set"] == {"max_num_seqs": incumbent / 2}
        # The trial gives way before the act, as `Preempt` has it.
        here.stand.journal.close(entry, "undone", here.now)
        self.serve(here, incumbent)
        assert here.stand.live(here.hot.act(action, plan, RUN, here.now)).ok
        assert here.undo(here.hot, plan.undo).ok
        assert here.values()["max_num_seqs"] == incumbent

    def test_the_batch_grows_from_what_is_proved_and_not_from_what_is_tried(self, here: HandStand) -> None:
        self.serve(here, 64.0)
        boot_id = here.stand.node.control.read_state().boot_id
        undo = {"max_num_seqs": 64.0}
        here.stand.journal.open("adaptive", boot_id, "adaptive mode", {"max_num_seqs": 16.0}, undo, here.now)
        self.serve(here, 16.0, lease=30.0)
        here.read_kv(0.4)
        _, plan = here.plan(here.expand, "expand_batch", factor=2)
        assert plan.undo is not None
        assert plan.undo["values"]["max_num_seqs"] == 64.0
        assert plan.undo["set"]["max_num_seqs"] == 128.0

    def test_values_that_went_since_the_plan_are_refused_and_nothing_is_written(
        self, here: HandStand
    ) -> None:
        before = here.values()["max_num_seqs"]
        self.serve(here, 32.0)
        action, plan = here.plan(here.hot, "set_knobs", max_num_seqs="x0.5")
        self.serve(here, before)
        with pytest.raises(ActionRefused, match=f"max_num_seqs is {before:g} and was 32 when"):
            here.stand.live(here.hot.act(action, plan, RUN, here.now))
        assert here.values()["max_num_seqs"] == before
        assert here.stand.journal.last(10) == []

    def test_another_boot_than_the_plans_is_refused(self, here: HandStand) -> None:
        action, plan = here.plan(here.hot, "set_knobs", max_num_seqs="x0.5")
        here.stand.restart(block_size=64)
        before = here.values()
        with pytest.raises(ActionRefused, match="restarted since this was planned"):
            here.stand.live(here.hot.act(action, plan, RUN, here.now))
        assert here.values() == before

    def test_what_a_restart_took_along_is_put_back_in_the_new_boot(self, here: HandStand) -> None:
        before = here.values()["max_num_seqs"]
        here.stand.journal.note_launch(here.stand.node.control.read_state(), here.now)
        plan, _ = here.do(here.hot, "set_knobs", max_num_seqs="x0.5")
        here.stand.restart(block_size=64)
        assert here.values()["max_num_seqs"] == before / 2
        back = here.undo(here.hot, plan.undo)
        assert back.ok
        assert here.values()["max_num_seqs"] == before
        assert here.stand.journal.standing(here.stand.node.control.read_state().boot_id) == []
        assert here.undo(here.hot, plan.undo).ok
        assert here.values()["max_num_seqs"] == before

    def test_what_somebody_set_in_the_new_boot_is_left_as_it_is(self, here: HandStand) -> None:
        here.stand.journal.note_launch(here.stand.node.control.read_state(), here.now)
        plan, _ = here.do(here.hot, "set_knobs", max_num_seqs="x0.5")
        here.stand.restart(block_size=64)
        self.serve(here, 7.0)
        assert here.undo(here.hot, plan.undo).ok
        assert here.values()["max_num_seqs"] == 7.0

    def serve(self, here: HandStand, seqs: float, lease: float | None = None) -> None:
        control = here.stand.node.control
        control.apply({"max_num_seqs": seqs}, if_epoch=control.read_state().epoch, lease_seconds=lease)
