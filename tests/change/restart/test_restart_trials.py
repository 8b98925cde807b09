"""Trials and promotions in the cold lane, the hot values over a restart, and rollbacks across lanes."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from change.apply import change, rollback
from change.journal import JournalUnwritable
from change.restart.command import same
from change.restart.order import RestartOrder
from change.restart.recovery import recover
from change.restart.restart import Restart
from change.restart.roll_back import undo_restarts
from change.server import LaunchCommand, ServerError
from change.steps import ChangeRefused
from change.undo import Undo, roll_back
from sim.server_arguments import LAUNCH, render
from store.models import JournalEntry
from tests.change.restart.stand import Stand


def hot(stand: Stand, kind: str = "manual", **values: float) -> JournalEntry:
    return stand.live(
        change(
            stand.node.control,
            stand.journal,
            values,
            kind=kind,  # type: ignore[arg-type]
            actor="test",
            now=stand.clock.now(),
            campaign_id=3 if kind == "promotion" else None,
        )
    )


def values(stand: Stand) -> dict[str, float]:
    return dict(stand.node.control.read_state().values)


def test_a_trial_stays_open_until_the_next_restart_and_is_not_kept() -> None:
    stand = Stand()
    assert stand.restart("trial", block_size=64).outcome == "served"
    (entry,) = stand.entries()
    assert entry.state == "verified"
    assert same(stand.server.kept, LAUNCH)
    assert stand.restart("trial", block_size=32).outcome == "served"
    first, second = stand.entries()
    assert (first.outcome, second.state) == ("undone", "verified")
    assert second.undo["settings"] == {"block_size": 128}


def test_going_home_from_a_trial_leaves_nothing_open() -> None:
    stand = Stand()
    stand.restart("trial", block_size=64)
    assert stand.restart("trial", block_size=128).outcome == "served"
    assert stand.journal.open_entries("cold") == []
    assert stand.serves(block_size=128)


def test_a_failed_trial_returns_to_the_last_known_good_not_to_the_trial_before() -> None:
    stand = Stand()
    stand.restart("trial", block_size=64)
    stand.server.faults = ["out_of_memory"]
    assert stand.restart("trial", block_size=32).outcome == "returned"
    assert stand.serves(block_size=128)
    assert stand.journal.open_entries("cold") == []


def test_promoting_what_serves_as_a_trial_costs_no_restart() -> None:
    stand = Stand()
    stand.restart("trial", block_size=64)
    starts = stand.server.starts
    result = stand.restart("promotion", block_size=64)
    assert (result.outcome, stand.server.starts) == ("served", starts)
    assert same(stand.server.kept, stand.server.run.command)
    assert [entry.outcome for entry in stand.entries()] == ["undone", "done"]
    assert stand.entries()[-1].undo["settings"] == {"block_size": 128}


def test_what_passed_the_golden_prompts_as_a_trial_is_promoted_as_having_passed_them() -> None:
    stand = Stand()
    stand.judge(golden=lambda settings: "kv_cache_dtype" in settings)
    assert stand.restart("trial", kv_cache_dtype="int8").accuracy == "passed"
    result = stand.restart("promotion", kv_cache_dtype="int8")
    assert (result.outcome, result.accuracy, stand.server.starts) == ("served", "passed", 1)
    assert result.effective["kv_cache_dtype"] == "int8"


def test_a_promotion_that_cannot_be_kept_is_refused_and_stays_refused() -> None:
    stand = Stand()
    stand.restart("trial", block_size=64)
    real = stand.server.keep

    async def keep(command: LaunchCommand) -> None:
        raise ServerError("launch.json: cannot be kept: read-only file system")

    stand.server.keep = keep  # type: ignore[method-assign]
    result = stand.restart("promotion", block_size=64)
    assert result.outcome == "refused"
    assert "read-only" in result.reason
    stand.server.keep = real  # type: ignore[method-assign]
    trial, promotion = stand.entries()
    assert (trial.state, promotion.outcome) == ("verified", "undone")
    stand.live(recover(stand.parts))
    assert stand.serves(block_size=128)
    assert same(stand.server.kept, LAUNCH)


def test_a_promotion_that_is_kept_but_not_completed_serves_and_is_completed_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stand = Stand()
    stand.restart("trial", block_size=64)

    def full(*_: object, **__: object) -> None:
        raise JournalUnwritable("disk full")

    monkeypatch.setattr(stand.journal, "close", full)
    result = stand.restart("promotion", block_size=64)
    assert result.outcome == "served"
    assert "disk full" in result.reason
    monkeypatch.undo()
    stand.live(recover(stand.parts))
    assert stand.serves(block_size=64)
    assert stand.journal.open_entries("cold") == []
    assert [entry.outcome for entry in stand.entries()] == ["recovered", "done"]


def test_a_daemon_that_dies_while_a_trial_serves_leaves_the_last_known_good() -> None:
    stand = Stand()
    stand.restart("trial", block_size=64)
    (closed,) = stand.live(recover(stand.parts))
    assert closed.outcome == "recovered"
    assert stand.serves(block_size=128)


def test_recovery_leaves_an_engine_alone_that_somebody_else_started_with_his_own_command() -> None:
    stand = Stand()
    stand.restart("trial", block_size=64)
    his = stand.somebody_starts(max_num_seqs=64)
    starts = stand.server.starts
    (closed,) = stand.live(recover(stand.parts))
    assert (closed.outcome, closed.reason) == (
        "recovered",
        "somebody else's command serves: it is left alone",
    )
    assert stand.journal.open_entries("cold") == []
    assert same(stand.server.run.command, his)
    assert stand.server.starts == starts
    assert same(stand.server.kept, LAUNCH)


def test_no_restart_goes_over_what_somebody_else_started_while_a_trial_served() -> None:
    stand = Stand()
    stand.restart("trial", block_size=64)
    his = stand.somebody_starts(max_num_seqs=64)
    home = RestartOrder({}, LAUNCH, "campaign 1", "rollback", 1)
    result = stand.live(Restart(stand.parts, home).run())
    assert (result.outcome, result.phase) == ("refused", "preflight")
    assert "somebody else" in result.reason
    assert same(stand.server.run.command, his)


def test_recovery_says_that_it_is_at_work_from_its_begin_and_all_along_the_drain() -> None:
    stand = Stand()
    stand.restart("trial", block_size=64)
    stand.server.attended.clear()

    async def inside() -> int:
        return 3

    stand.probe.inside = inside  # type: ignore[method-assign]
    begun = stand.node.now
    stand.live(recover(stand.parts))
    times = [at - begun for at in stand.server.attended]
    assert times[0] == 0.0
    assert times[-1] > 110.0
    assert max(b - a for a, b in pairwise(times)) < 30.0


def test_no_restart_before_an_earlier_one_is_brought_to_an_end() -> None:
    stand = Stand()
    stand.restart("trial", block_size=64)
    with stand.store.session() as session:
        session.query(JournalEntry).update({"state": "applied"})
    result = stand.restart(block_size=32)
    assert (result.outcome, stand.server.starts) == ("refused", 1)
    assert "not brought to an end" in result.reason


def test_promoted_hot_values_live_on_over_a_restart_and_over_later_ones_by_others() -> None:
    stand = Stand()
    hot(stand, "promotion", batch_max_tokens=512)
    assert stand.restart(block_size=64, max_num_seqs=128).outcome == "served"
    assert values(stand)["batch_max_tokens"] == 512
    promoted = stand.journal.promoted()
    assert promoted is not None
    assert (promoted.values, promoted.campaign_id) == ({"batch_max_tokens": 512}, 3)
    assert promoted.launch["max_num_seqs"] == 128


def test_a_trial_has_the_hot_values_and_leaves_the_record_of_the_promotion_as_it_is() -> None:
    stand = Stand()
    hot(stand, "promotion", batch_max_tokens=512)
    stand.restart("trial", max_num_seqs=128)
    assert values(stand)["batch_max_tokens"] == 512
    promoted = stand.journal.promoted()
    assert promoted is not None
    assert promoted.launch["max_num_seqs"] == 256
    stand.server.faults = []
    stand.live(recover(stand.parts))
    assert values(stand)["batch_max_tokens"] == 512


def test_ceilings_can_be_raised_with_the_hot_values_staying_what_they_were() -> None:
    stand = Stand()
    order = replace(stand.order(batch_max_tokens=4096), hot={"batch_max_tokens": 2048.0})
    assert stand.live(Restart(stand.parts, order).run()).outcome == "served"
    assert values(stand)["batch_max_tokens"] == 2048


def test_a_hot_value_above_a_new_ceiling_is_left_out_and_said() -> None:
    stand = Stand(scenario="clamped")
    hot(stand, max_prefill_tokens=2000)
    result = stand.restart(batch_max_tokens=1024)
    assert result.outcome == "served"
    assert "max_prefill_tokens 2000 does not fit any more" in result.reason
    assert values(stand)["max_prefill_tokens"] == 0


def undo_hot(stand: Stand) -> Undo:
    async def undo(entries: object, actor: str, now: float) -> JournalEntry:
        n = len(list(entries))  # type: ignore[call-overload]
        return await rollback(stand.node.control, stand.journal, n, now, actor=actor)

    return undo


def back(stand: Stand, n: int, **more: Undo) -> list[JournalEntry]:
    lanes = {"hot": undo_hot(stand), "cold": undo_restarts(stand.parts), **more}
    done, stopped = stand.live(
        roll_back(
            stand.journal,
            stand.node.control.boot_id,
            n,
            lanes,  # type: ignore[arg-type]
            actor="test",
            now=stand.clock.now,
        )
    )
    assert stopped is None
    return done


def test_a_rollback_takes_changes_back_in_order_across_the_lanes() -> None:
    stand = Stand()
    stand.restart(block_size=64)
    hot(stand, batch_max_tokens=512)
    hot(stand, batch_max_tokens=1024)
    done = back(stand, 3)
    assert [(entry.lane, entry.outcome) for entry in done] == [("hot", "done"), ("cold", "done")]
    assert len(done[0].undoes or ()) == 2
    assert stand.serves(block_size=128)
    assert values(stand)["batch_max_tokens"] == 2048
    assert stand.journal.standing_anywhere(stand.node.control.boot_id) == []


def test_the_values_that_a_restart_took_along_are_no_change_after_it() -> None:
    stand = Stand()
    hot(stand, "promotion", batch_max_tokens=512)
    stand.restart(block_size=64)
    (only,) = back(stand, 1)
    assert (only.lane, only.outcome) == ("cold", "done")
    assert stand.serves(block_size=128)
    assert values(stand)["batch_max_tokens"] == 512
    (only,) = back(stand, 1)
    assert only.lane == "hot"
    assert values(stand)["batch_max_tokens"] == 2048
    assert stand.journal.promoted() is None


def test_two_restarts_are_taken_back_by_one() -> None:
    stand = Stand()
    stand.restart(block_size=64)
    stand.restart(max_num_seqs=128)
    starts = stand.server.starts
    back(stand, 2)
    assert stand.server.starts == starts + 1
    assert same(stand.server.run.command, LAUNCH)


def test_a_rollback_does_not_go_over_what_somebody_else_started_since() -> None:
    stand = Stand()
    stand.restart(block_size=64)
    his = stand.somebody_starts(max_num_seqs=64)
    with pytest.raises(
        ChangeRefused, match=r"--block-size 64.*the engine was started with.*--max-num-seqs 64"
    ):
        back(stand, 1)
    assert same(stand.server.run.command, his)
    stand.restart(block_size=32)
    with pytest.raises(ChangeRefused, match=r"change 1: that made .* change \d found .*--max-num-seqs 64"):
        back(stand, 2)
    back(stand, 1)
    assert same(stand.server.run.command, his)


def test_a_rollback_that_fails_takes_nothing_older_back() -> None:
    stand = Stand()
    stand.restart(max_num_seqs=128)
    stand.restart(block_size=64)
    stand.server.faults = ["out_of_memory"]
    (only,) = back(stand, 2)
    assert only.outcome == "undone"
    assert stand.serves(block_size=64, max_num_seqs=128)
    assert len(stand.journal.standing_anywhere(stand.node.control.boot_id)) == 2


def test_a_lane_without_a_hand_refuses_before_anything_is_done() -> None:
    stand = Stand()
    stand.restart(block_size=64)
    hot(stand, batch_max_tokens=512)
    try:
        stand.live(
            roll_back(
                stand.journal,
                stand.node.control.boot_id,
                2,
                {"hot": undo_hot(stand)},
                actor="test",
                now=stand.clock.now,
            )
        )
    except ChangeRefused as refused:
        assert "cold lane" in str(refused)
    else:
        raise AssertionError("it went ahead")
    assert values(stand)["batch_max_tokens"] == 512


def test_a_rollback_renders_the_old_command_exactly() -> None:
    stand = Stand()
    before: LaunchCommand = stand.server.run.command
    stand.restart(block_size=64, pipeline_parallel_size=1)
    assert same(stand.server.run.command, render(before, {"block_size": 64, "pipeline_parallel_size": 1}))
    back(stand, 1)
    assert same(stand.server.run.command, before)
