"""One walk: its steps, branches and time-outs, and what is put back at its end."""

from __future__ import annotations

import pytest

from rules.actions import Outcome
from rules.playbook.messages import DoAct, PlanAct, Result, RunChanged, TakeCapture, UndoAct
from rules.playbook.runner import Runner
from store import Store
from store.alert_models import RunAct, RunEvent
from tests.rules.playbook.stand import HOT, Stand, alert, playbooks


def begin(stand: Stand, celsius: float = 90.0) -> None:
    stand.runner.take([alert()], stand.now)
    stand.tick(celsius=celsius)


def test_walks_to_the_end_and_keeps_what_is_verified(stand: Stand) -> None:
    begin(stand)
    stand.tick(celsius=90, times=3)
    assert stand.engine.values["max_num_seqs"] == 128
    stand.tick(celsius=80, times=8)
    run = stand.run()
    assert (run.state, run.cause, run.target) == ("succeeded", "thermal", "npu 3")
    assert stand.engine.values["max_num_seqs"] == 128
    assert stand.rows(RunAct)[0].state == "kept"
    assert [change.state for change in stand.of(RunChanged)] == [
        "queued",
        "running",
        "verifying",
        "running",
        "succeeded",
    ]


def test_every_step_leaves_a_line_with_the_figures_it_saw(stand: Stand) -> None:
    begin(stand)
    stand.tick(celsius=90, times=3)
    stand.tick(celsius=80, times=8)
    rows = stand.rows(RunEvent)
    steps = {row.step: row for row in rows if row.kind != "state"}
    assert set(steps) == {"hot", "evidence", "cause", "relieve", "cooler"}
    assert steps["hot"].figures["npu_temperature_celsius{npu=3}"] == 90
    assert steps["cooler"].figures["value{npu=3}"] == 80
    assert steps["evidence"].figures == {"path": "x"}
    assert steps["cause"].text == "thermal: card 3 is over 85"


def test_puts_back_what_does_not_help(stand: Stand) -> None:
    begin(stand)
    stand.tick(celsius=90, times=70)
    assert stand.run().state == "rolled_back"
    assert "did not come to hold within 300 s" in stand.run().reason
    assert stand.engine.values == stand.engine.first
    assert stand.rows(RunAct)[0].state == "undone"


def test_a_condition_that_does_not_hold_in_time_goes_the_other_way(stand: Stand) -> None:
    begin(stand, celsius=70)
    stand.tick(celsius=70, times=5)
    assert stand.run().state == "running"
    stand.tick(celsius=70, times=2)
    assert stand.run().state == "inconclusive"
    assert "does not hold within 30 s" in stand.run().reason


def test_no_reading_is_unknown_and_has_its_own_way(store: Store) -> None:
    text = HOT.replace("yes: evidence", "yes: evidence\n        unknown: end:failed")
    stand = Stand(store, playbooks(text))
    stand.runner.take([alert()], stand.now)
    stand.tick(times=8)
    assert stand.run().state == "failed"
    assert "no readings" in stand.run().reason


def test_a_reading_from_before_the_act_verifies_nothing(store: Store) -> None:
    stand = Stand(store, playbooks(HOT.replace("for: 30s", "for: 0s").replace("< ${limit}", "> 0")))
    begin(stand)
    stand.tick(celsius=90)  # the capture has come back: plan
    stand.tick()
    stand.tick()
    assert stand.engine.values["max_num_seqs"] == 128
    stand.tick(times=3)
    assert stand.run().state == "verifying"
    stand.tick(celsius=90)
    assert stand.run().state == "succeeded"


def test_a_verification_that_is_broken_begins_anew(stand: Stand) -> None:
    begin(stand)
    stand.tick(celsius=90, times=3)
    stand.tick(celsius=80, times=4)
    stand.tick(celsius=90)
    stand.tick(celsius=80, times=6)
    assert stand.run().state == "verifying"
    stand.tick(celsius=80, times=2)
    assert stand.run().state == "succeeded"


def test_without_readings_a_verification_does_not_hold(stand: Stand) -> None:
    begin(stand)
    stand.tick(celsius=90, times=3)
    stand.heat(None)
    stand.tick(times=70)
    assert stand.run().state == "rolled_back"
    assert "cannot be known" in stand.run().reason


@pytest.mark.parametrize("lost", [PlanAct, DoAct, UndoAct, TakeCapture])
def test_no_answer_is_waited_for_for_ever(stand: Stand, lost: type) -> None:
    stand.lost = {lost}
    begin(stand)
    stand.tick(celsius=90, times=300)
    assert stand.run().ended is not None
    assert stand.run().state == ("rolled_back" if lost is TakeCapture else "failed")


def test_an_act_that_does_not_answer_is_put_back(stand: Stand) -> None:
    stand.lost = {DoAct}
    begin(stand)
    stand.tick(celsius=90, times=30)
    assert stand.of(UndoAct)
    assert stand.rows(RunAct)[0].state == "undone"


def test_an_act_that_fails_half_way_is_put_back_before_the_walk_goes_on(store: Store) -> None:
    text = HOT.replace("timeout: 60s", "timeout: 60s\n        failed: other") + (
        "        yes: end:succeeded\n"
        "      - {name: other, act: {kind: set_knobs, arguments: {batch_max_tokens: 4096}}}\n"
        '      - {name: then, verify: npu_temperature_celsius{npu="${npu}"} < 85}\n'
    ).replace("verify: npu", "verify: 'npu").replace("< 85}", "< 85'}")
    stand = Stand(store, playbooks(text))
    stand.engine.fails = "the engine clamped it"
    begin(stand)
    stand.tick(celsius=90, times=3)
    stand.engine.fails = None
    stand.tick(celsius=80, times=6)
    assert stand.run().state == "succeeded"
    assert stand.engine.values == {"max_num_seqs": 256, "batch_max_tokens": 4096}
    assert [row.state for row in stand.rows(RunAct)] == ["undone", "kept"]


def test_an_undo_that_fails_is_tried_again_and_then_told(stand: Stand) -> None:
    stand.engine.stuck = True
    begin(stand)
    stand.tick(celsius=90, times=80)
    assert stand.run().state == "failed"
    assert "could not be put back, do it by hand: relieve" in stand.run().reason
    assert len(stand.of(UndoAct)) == 3


def test_an_undo_that_works_the_second_time_is_an_undo(stand: Stand) -> None:
    stand.engine.stuck = True
    begin(stand)
    while not stand.of(UndoAct):
        stand.tick(celsius=90)
    stand.engine.stuck = False
    stand.tick(celsius=90, times=8)
    assert stand.run().state == "rolled_back"
    assert stand.engine.values == stand.engine.first


def test_without_a_way_back_a_change_that_does_not_help_has_failed(store: Store) -> None:
    stand = Stand(
        store, playbooks(HOT.replace("{kind: set_knobs, arguments: {max_num_seqs: x0.5}}", "{kind: restart}"))
    )
    begin(stand)
    stand.tick(celsius=90, times=70)
    assert stand.run().state == "failed"
    assert "no way back from: relieve (restart the engine)" in stand.run().reason
    assert stand.engine.restarts == 1


def test_a_playbook_that_goes_round_for_ever_ends(store: Store) -> None:
    text = """
playbooks:
  - name: hot
    title: Round
    description: Goes round.
    steps:
      - {name: a, check: "npu_temperature_celsius > 0", within: 1s, yes: b}
      - {name: b, check: "npu_temperature_celsius > 0", within: 1s, yes: a, no: a}
"""
    stand = Stand(store, playbooks(text))
    begin(stand)
    assert stand.run().state == "failed"
    assert "more than 100 steps" in stand.run().reason
    assert len(stand.lines()) < 120


def test_a_label_cannot_change_a_condition_or_a_text(stand: Stand) -> None:
    nasty = '3"} or vector(1) or x{y="\n\x1b'
    stand.runner.take([alert(npu=nasty)], stand.now)
    stand.heat(90.0)
    stand.tick(celsius=90, times=10)
    assert stand.run().state == "inconclusive"
    assert not stand.of(PlanAct)
    assert "\n" not in stand.run().target
    stand.runner.take([alert(npu=nasty, started=2000.0, fingerprint="other", playbook="hot")], stand.now)


def test_a_variable_without_a_value_is_told_and_nothing_is_done(stand: Stand) -> None:
    stand.runner.take([alert(labels=())], stand.now)
    stand.tick(celsius=90, times=10)
    assert stand.run().state == "inconclusive"
    assert any("the alert has no label npu" in str(row.figures) for row in stand.rows(RunEvent))


def test_an_alert_that_resolves_by_itself_needs_no_act(stand: Stand) -> None:
    begin(stand)
    stand.runner.resolved("f3", stand.now)
    stand.tick(celsius=90, times=3)
    assert (stand.run().state, stand.run().reason) == (
        "skipped",
        "the alert resolved by itself before anything was done",
    )
    assert not stand.of(DoAct)


def test_once_it_has_acted_it_verifies_even_if_the_alert_resolves(stand: Stand) -> None:
    begin(stand)
    stand.tick(celsius=90, times=3)
    stand.runner.resolved("f3", stand.now)
    stand.tick(celsius=80, times=8)
    assert stand.run().state == "succeeded"


def test_a_profile_may_take_as_long_as_whoever_takes_it_waits(store: Store) -> None:
    stand = Stand(store, playbooks(HOT.replace("capture: dmesg", "capture: msprof")))
    stand.runner = Runner("http://e", stand.books, stand.limits, store, finish_profile_seconds=300.0)
    stand.lost = {TakeCapture}
    begin(stand)
    stand.tick(celsius=90, times=70)
    assert (stand.run().state, stand.run().step) == ("running", "evidence")
    asked = stand.last(TakeCapture)
    stand.results.append(Result(asked.run_id, asked.call, outcome=Outcome(True, "recorded", {"path": "x"})))
    stand.tick(celsius=90)
    assert "evidence capture: msprof: recorded" in stand.lines()


def test_a_profile_that_never_comes_is_given_up(store: Store) -> None:
    stand = Stand(store, playbooks(HOT.replace("capture: dmesg", "capture: msprof")))
    stand.runner = Runner("http://e", stand.books, stand.limits, store, finish_profile_seconds=300.0)
    stand.lost = {TakeCapture}
    begin(stand)
    stand.tick(celsius=90, times=76)
    assert "evidence capture: msprof: failed: no answer in time" in stand.lines()
