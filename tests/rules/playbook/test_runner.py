"""All runs together: who starts, who waits, who is left out, and what is told of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from collectors.sample import labels
from rules.playbook.messages import DoAct, PlanAct, TakeCapture, Trigger, UndoAct
from rules.playbook.rails import Limits
from rules.playbook.runner import MOST_TAKEN
from store import Store, StoreError
from store.alert_models import PlaybookRun, RunAct
from tests.rules.playbook.stand import HOT, Stand, alert, playbooks


def act(stand: Stand) -> None:
    """A run up to its act."""
    stand.runner.take([alert()], stand.now)
    stand.tick(celsius=90, times=4)
    assert stand.engine.values["max_num_seqs"] == 128


class TestOnce:
    def test_an_alert_starts_one_run_for_its_fingerprint_and_start(self, stand: Stand) -> None:
        stand.runner.take([alert(), alert()], stand.now)
        stand.tick(celsius=90)
        stand.runner.take([alert()], stand.now)
        stand.tick(celsius=90)
        stand.crash()
        stand.runner.take([alert()], stand.now)
        stand.tick(celsius=90)
        assert len(stand.rows(PlaybookRun)) == 1

    def test_another_alert_for_the_same_target_is_left_to_the_run_that_is_there(self, stand: Stand) -> None:
        stand.runner.take([alert(), alert(fingerprint="other")], stand.now)
        stand.tick(celsius=90)
        assert stand.run().state == "skipped"
        assert "of the same playbook is on npu 3 already" in stand.run().reason

    @pytest.mark.parametrize(
        ("trigger", "reason"),
        [
            (alert(refusal="silenced"), "silenced"),
            (alert(playbook="cold"), "there is no playbook cold"),
            (alert(labels=labels(npu="x" * 2000)), "longer than 1000 characters"),
            (alert(labels=tuple((f"l{i}", "x") for i in range(100))), "100 labels: at most 64"),
        ],
    )
    def test_what_must_not_walk_is_written_down_with_its_reason(
        self, stand: Stand, trigger: Trigger, reason: str
    ) -> None:
        stand.runner.take([trigger], stand.now)
        stand.tick(celsius=90, times=3)
        assert stand.run().state == "skipped"
        assert reason in stand.run().reason
        assert stand.run().started is None
        assert stand.lines()

    def test_a_disabled_playbook_does_not_walk(self, store: Store) -> None:
        stand = Stand(store, limits=Limits(disabled=frozenset({"hot"})))
        stand.runner.take([alert()], stand.now)
        stand.tick(celsius=90)
        assert stand.run().reason == "the playbook is in playbooks.disabled"

    def test_names_that_are_no_text_are_written_down_all_the_same(self, stand: Stand) -> None:
        stand.runner.take([alert(playbook="\ud800" * 500, fingerprint="\ud800")], stand.now)
        stand.runner.take([alert(labels=labels(npu="\ud800", alertname="\udfff"))], stand.now)
        stand.tick(celsius=90, times=9)
        assert {run.state for run in stand.rows(PlaybookRun)} == {"skipped", "inconclusive"}

    def test_a_flood_is_bounded(self, stand: Stand) -> None:
        many = [alert(npu=str(number), fingerprint=str(number)) for number in range(10_000)]
        assert stand.runner.take(many, stand.now) == 10_000 - MOST_TAKEN
        stand.tick(times=2)
        assert len(stand.runner.status(stand.now).runs) <= 101
        assert "100 runs are waiting already" in {run.reason for run in stand.rows(PlaybookRun)}


class TestOneAtATime:
    def test_who_would_change_something_waits_for_who_does(self, stand: Stand) -> None:
        act(stand)
        stand.runner.take([alert("4", started=1100.0)], stand.now)
        stand.heat(90.0, npu="4")
        stand.tick(celsius=90)
        assert stand.run().state == "queued"
        (_, view) = stand.runner.status(stand.now).runs
        assert view.reason == "run 1 (hot) is walking, and one at a time may change something"
        stand.tick(celsius=80, times=8)
        (view,) = stand.runner.status(stand.now).runs
        assert view.reason == "cool-down: engine was changed, and is watched for another 6 min"
        stand.tick(celsius=80, times=72)
        stand.heat(90.0, npu="4")
        stand.tick(celsius=80)
        assert stand.run().state == "running"

    def test_who_only_looks_may_walk_beside(self, stand: Stand) -> None:
        act(stand)
        stand.runner.take([alert("4", started=1100.0, dry_run=True)], stand.now)
        stand.heat(90.0, npu="4")
        stand.tick(celsius=90, times=3)
        assert stand.run().state == "skipped"
        assert stand.run().reason.startswith("dry run: would have change")

    def test_an_alert_that_resolves_while_it_waits_is_skipped(self, stand: Stand) -> None:
        act(stand)
        stand.runner.take([alert("4", started=1100.0)], stand.now)
        stand.tick(celsius=90)
        stand.runner.resolved("f4", stand.now)
        stand.tick(celsius=90)
        assert stand.run().reason == "the alert resolved by itself before the run began"

    def test_resolved_before_it_was_written_down(self, stand: Stand) -> None:
        stand.runner.take([alert()], stand.now)
        stand.runner.resolved("f3", stand.now)
        stand.tick(celsius=90)
        assert (stand.run().state, stand.run().reason) == ("skipped", "the alert resolved by itself")

    def test_nobody_waits_for_ever(self, stand: Stand) -> None:
        stand.stopped = "paused by ann"
        stand.runner.take([alert()], stand.now)
        stand.tick(celsius=90, seconds=60, times=32)
        assert stand.run().reason == "waited for 30 min: paused by ann"


class TestCoolDown:
    def test_a_playbook_rests_on_its_target(self, stand: Stand) -> None:
        act(stand)
        stand.tick(celsius=80, times=8)
        stand.runner.take([alert(started=2000.0)], stand.now)
        stand.tick(celsius=90)
        (view,) = stand.runner.status(stand.now).runs
        assert (view.state, view.reason) == ("queued", "cool-down: hot rests on npu 3 for another 30 min")

    def test_an_alert_that_goes_on_firing_is_walked_for_when_the_cool_down_ends(self, stand: Stand) -> None:
        act(stand)
        stand.tick(celsius=80, times=8)
        ended = stand.run().ended
        stand.runner.take([alert(started=2000.0)], stand.now)
        stand.tick(celsius=90, times=400)
        assert len(stand.rows(PlaybookRun)) == 2
        assert ended + 1800 <= stand.run().started <= ended + 1810

    def test_one_that_is_over_before_that_is_not(self, stand: Stand) -> None:
        act(stand)
        stand.tick(celsius=80, times=8)
        stand.runner.take([alert(started=2000.0)], stand.now)
        stand.tick(celsius=90)
        stand.runner.resolved("f3", stand.now)
        stand.tick(celsius=90)
        assert stand.run().state == "skipped"

    def test_a_persons_order_waits_for_none(self, stand: Stand) -> None:
        act(stand)
        stand.tick(celsius=80, times=8)
        stand.runner.take([replace(alert(started=2000.0), source="manual", fingerprint="")], stand.now)
        stand.tick(celsius=90)
        assert stand.run().state == "skipped"
        assert "cool-down: hot rests on npu 3 for another 30 min" in stand.run().reason

    def test_over_a_restart_too(self, stand: Stand) -> None:
        act(stand)
        stand.tick(celsius=80, times=8)
        stand.crash()
        stand.runner.take([alert(started=2000.0)], stand.now)
        stand.tick(celsius=90, times=10)
        assert stand.run().state == "queued"

    def test_a_dry_run_uses_it_up(self, stand: Stand) -> None:
        stand.runner.take([alert(dry_run=True)], stand.now)
        stand.tick(celsius=90, times=4)
        assert stand.run().state == "skipped"
        stand.runner.take([alert(started=2000.0)], stand.now)
        stand.tick(celsius=90)
        assert "cool-down" in str(stand.runner.status(stand.now).runs[0].reason)

    def test_an_alert_waits_for_a_long_one_too(self, store: Store) -> None:
        stand = Stand(store, playbooks(HOT.replace("30min", "2h")))
        act(stand)
        stand.tick(celsius=80, times=8)
        stand.runner.take([alert(started=2000.0)], stand.now)
        stand.tick(seconds=60, celsius=90, times=122)
        assert stand.run().state in ("running", "verifying")

    def test_another_playbook_waits_until_the_change_was_watched(self, store: Store) -> None:
        other = HOT.replace("playbooks:", "").replace("name: hot\n    title", "name: other\n    title")
        stand = Stand(store, playbooks(HOT + other))
        act(stand)
        stand.tick(celsius=80, times=8)
        stand.runner.take([alert(started=2000.0, playbook="other")], stand.now)
        stand.tick(celsius=90)
        assert stand.run().state == "queued"
        assert "npu 3 was changed" in str(stand.runner.status(stand.now).runs[0].reason)
        cooling = stand.runner.status(stand.now).cooling
        assert cooling["npu 3"] == cooling["engine"] > stand.now
        # the alert's window (60 s) and the verification (300 s)
        stand.tick(celsius=90, times=73)
        assert stand.run().state in ("running", "verifying")

    def test_who_has_changed_nothing_holds_up_no_other_playbook(self, store: Store) -> None:
        other = HOT.replace("playbooks:", "").replace("name: hot\n    title", "name: other\n    title")
        stand = Stand(store, playbooks(HOT + other))
        stand.runner.take([alert()], stand.now)
        stand.tick(celsius=70, times=10)
        assert stand.run().state == "inconclusive"
        stand.runner.take([alert(started=2000.0, playbook="other")], stand.now)
        stand.tick(celsius=90)
        assert stand.run().state == "running"


class TestBudget:
    def test_no_more_acts_within_an_hour_than_allowed(self, store: Store) -> None:
        stand = Stand(store, limits=Limits(acts_per_hour=1))
        act(stand)
        assert stand.runner.status(stand.now).acts_left == 0
        stand.tick(celsius=80, times=80)
        stand.runner.take([alert("4", started=2000.0)], stand.now)
        stand.heat(90.0, npu="4")
        stand.tick(celsius=80, times=4)
        assert (stand.run().state, stand.run().reason) == (
            "failed",
            "relieve: refused: playbooks.acts_per_hour (1) is used up",
        )
        assert len(stand.of(DoAct)) == 1
        stand.now += 3600
        assert stand.runner.status(stand.now).acts_left == 1

    def test_an_action_that_is_not_allowed_is_refused(self, store: Store) -> None:
        stand = Stand(store, limits=Limits(allow=frozenset({"notify"})))
        stand.runner.take([alert()], stand.now)
        stand.tick(celsius=90, times=5)
        assert stand.run().reason == "relieve: refused: set_knobs is not in playbooks.allow"
        assert not stand.of(PlanAct)

    def test_the_hand_may_refuse_and_says_why(self, stand: Stand) -> None:
        stand.engine.refuses = {"set_knobs": "no plugin"}
        stand.runner.take([alert()], stand.now)
        stand.tick(celsius=90, times=5)
        assert stand.run().reason == "relieve: refused: no plugin"
        assert not stand.rows(RunAct)


class TestObserve:
    def test_looks_and_says_what_it_would_have_done(self, stand: Stand) -> None:
        stand.mode = "observe"
        stand.runner.take([alert()], stand.now)
        stand.tick(celsius=90, times=4)
        assert (stand.run().state, stand.run().cause, stand.run().dry_run) == ("skipped", "thermal", True)
        assert stand.run().reason == (
            "dry run: would have change {'max_num_seqs': 256.0}; then verified: "
            'npu_temperature_celsius{npu="3"} < (85)'
        )
        assert stand.of(TakeCapture)
        assert not stand.of(DoAct)
        assert stand.engine.values == stand.engine.first

    def test_records_no_profile(self, store: Store) -> None:
        stand = Stand(store, playbooks(HOT.replace("dmesg", "msprof")))
        stand.mode = "observe"
        stand.runner.take([alert()], stand.now)
        stand.tick(celsius=90, times=4)
        assert not stand.of(TakeCapture)
        assert any("costs speed" in line for line in stand.lines())

    def test_a_mode_that_turns_to_observe_does_nothing_more(self, stand: Stand) -> None:
        stand.runner.take([alert()], stand.now)
        stand.tick(celsius=90)
        stand.mode = "observe"
        stand.tick(celsius=90, times=4)
        assert stand.run().reason == "relieve: refused: the mode is observe now"


class TestStopped:
    def test_nothing_starts(self, stand: Stand) -> None:
        stand.stopped = "paused by ann"
        stand.runner.take([alert()], stand.now)
        stand.tick(celsius=90, times=3)
        assert stand.run().state == "queued"
        stand.stopped = None
        stand.tick(celsius=90)
        assert stand.run().state == "running"

    def test_what_walks_acts_no_more(self, stand: Stand) -> None:
        stand.runner.take([alert()], stand.now)
        stand.tick(celsius=90)
        stand.stopped = "kill-switch"
        stand.tick(celsius=90, times=4)
        assert stand.run().reason == "relieve: refused: kill-switch"
        assert not stand.of(DoAct)

    def test_what_is_done_is_watched_and_kept_if_it_helps(self, stand: Stand) -> None:
        act(stand)
        stand.stopped = "kill-switch"
        stand.tick(celsius=80, times=8)
        assert stand.run().state == "succeeded"

    def test_and_put_back_if_it_does_not(self, stand: Stand) -> None:
        act(stand)
        stand.stopped = "kill-switch"
        stand.tick(celsius=90, times=70)
        assert stand.run().state == "rolled_back"
        assert stand.engine.values == stand.engine.first


class TestStore:
    @contextmanager
    def broken(self, stand: Stand, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        def refuse(_: Store) -> None:
            raise StoreError("the disk is full")

        with monkeypatch.context() as patch:
            patch.setattr(Store, "session", refuse)
            yield

    def test_without_it_nothing_is_done(self, stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
        stand.runner.take([alert()], stand.now)
        stand.tick(celsius=90)
        with self.broken(stand, monkeypatch):
            stand.tick(celsius=90, times=5)
            assert stand.runner.status(stand.now).trouble == "the disk is full"
            assert not stand.of(DoAct)
        stand.tick(celsius=90)
        assert stand.run().state == "failed"
        assert "the store cannot be written, so nothing is done" in stand.run().reason

    def test_a_trigger_waits_for_it(self, stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
        stand.runner.take([alert()], stand.now)
        with self.broken(stand, monkeypatch):
            stand.tick(celsius=90, times=3)
        stand.tick(celsius=90)
        assert stand.run().state == "running"

    def test_a_cool_down_that_is_not_written_yet_holds(
        self, stand: Stand, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        act(stand)
        with self.broken(stand, monkeypatch):
            stand.tick(celsius=80, times=8)
            stand.runner.take([alert(started=2000.0)], stand.now)
            stand.tick(celsius=90)
        stand.tick(celsius=90, times=2)
        assert [run.state for run in stand.rows(PlaybookRun)] == ["succeeded", "queued"]
        assert "cool-down" in str(stand.runner.status(stand.now).runs[0].reason)

    def test_what_is_done_is_put_back_without_it_and_written_down_later(
        self, stand: Stand, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        act(stand)
        with self.broken(stand, monkeypatch):
            stand.tick(celsius=90, times=70)
            assert stand.of(UndoAct)
            assert stand.engine.values == stand.engine.first
        stand.tick(celsius=90)
        assert stand.run().state == "rolled_back"
        assert stand.rows(RunAct)[0].state == "undone"


def test_a_manual_run_needs_no_alert(stand: Stand) -> None:
    trigger = replace(alert(), source="manual", fingerprint="", alert_started=0.0)
    stand.runner.take([trigger], stand.now)
    stand.tick(celsius=90)
    assert stand.run().state == "running"


def test_an_alert_from_outside_sets_none_of_the_playbooks_own_limits(stand: Stand) -> None:
    low = labels(alertname="Hot", npu="3", limit="10")
    stand.runner.take([alert(labels=low, source="alertmanager")], stand.now)
    stand.tick(celsius=70, times=10)
    assert stand.run().state == "inconclusive"
    assert not stand.of(DoAct)


def test_a_rules_own_labels_go_before_the_playbooks_defaults(stand: Stand) -> None:
    stand.runner.take([alert(labels=labels(alertname="Hot", npu="3", limit="10"))], stand.now)
    stand.tick(celsius=70, times=4)
    assert stand.of(DoAct)
