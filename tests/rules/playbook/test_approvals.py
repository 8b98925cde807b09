"""Mode advise: every act is asked for, and what is done is what was approved."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rules.actions import Plan
from rules.playbook.messages import Answer, AskApproval, DoAct
from rules.playbook.rails import Limits
from store import Store
from store.alert_models import PlaybookRun
from tests.rules.playbook.stand import HOT, Stand, alert, playbooks


@pytest.fixture
def asking(store: Store) -> Stand:
    stand = Stand(store, limits=Limits(approval_seconds=600))
    stand.mode = "advise"
    stand.runner.take([alert()], stand.now)
    stand.tick(celsius=90, times=3)
    return stand


def test_asks_with_the_plan_and_waits(asking: Stand) -> None:
    asking.tick(celsius=90, times=3)
    assert asking.run().state == "waiting_approval"
    assert asking.last(AskApproval).plan.text == "change {'max_num_seqs': 256.0}"
    (view,) = asking.runner.status(asking.now).runs
    assert (view.question, view.call) == ("change {'max_num_seqs': 256.0}", asking.last(AskApproval).call)
    assert view.answer_by == pytest.approx(1015 + 600)
    assert asking.engine.values == asking.engine.first


def test_does_it_once_approved_and_says_by_whom(asking: Stand) -> None:
    asking.answer()
    asking.tick(celsius=90, times=3)
    assert asking.engine.values["max_num_seqs"] == 128
    assert "relieve approval: approved by ann" in asking.lines()


def test_declined_is_skipped(asking: Stand) -> None:
    asking.answer(yes=False)
    asking.tick(celsius=90)
    assert (asking.run().state, asking.run().reason) == ("skipped", "relieve: declined by ann")


def test_unanswered_is_skipped(asking: Stand) -> None:
    asking.tick(celsius=90, times=130)
    assert (asking.run().state, asking.run().reason) == ("skipped", "relieve: nobody answered within 10 min")


def test_an_answer_to_another_question_approves_nothing(asking: Stand) -> None:
    asked = asking.last(AskApproval)
    asking.answers = [
        Answer(asked.run_id, True, "ann", asked.call + 7),
        Answer(asked.run_id + 1, True, "ann"),
    ]
    asking.tick(celsius=90, times=3)
    assert asking.run().state == "waiting_approval"


def test_asks_again_when_the_plan_is_another_one_by_then(asking: Stand) -> None:
    asking.engine.values["max_num_seqs"] = 64
    asking.answer()
    asking.tick(celsius=90, times=3)
    assert asking.run().state == "waiting_approval"
    assert asking.last(AskApproval).plan.text == "change {'max_num_seqs': 64}"
    assert any("the plan has changed since it was approved" in line for line in asking.lines())
    asking.answer()
    asking.tick(celsius=90, times=3)
    assert asking.engine.values["max_num_seqs"] == 32


def test_a_plan_that_changes_each_time_is_given_up(asking: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    count = iter(range(100))
    monkeypatch.setattr(asking.engine, "plan", lambda _: Plan(f"plan {next(count)}", "engine", True, {}))
    for _ in range(20):
        if asking.run().state == "waiting_approval":
            asking.answer()
        asking.tick(celsius=90)
    assert asking.run().state == "skipped"
    assert "another one after each of 3 approvals" in asking.run().reason


def test_a_figure_that_moves_beside_the_plan_makes_it_no_other_one(
    asking: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = (Plan("halve it", "engine", True, {"values": {}}, seen=f"{n}% full") for n in range(60, 90))
    monkeypatch.setattr(asking.engine, "plan", lambda _: next(plans))
    asking.answer(yes=False)
    asking.tick(celsius=90, times=3)
    asking.runner.take([alert("4", started=1100.0)], asking.now)
    asking.heat(90.0, npu="4")
    asking.tick(times=3)
    assert asking.runner.status(asking.now).runs[0].question == "halve it (60% full)"
    asking.answer()
    asking.tick(times=3)
    assert len(asking.of(DoAct)) == 1


def test_the_same_words_with_another_way_back_are_asked_again(
    asking: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = asking.last(AskApproval).plan
    other = Plan(plan.text, plan.blast, True, {"values": {"max_num_seqs": 64.0}})
    monkeypatch.setattr(asking.engine, "plan", lambda _: other)
    asking.answer()
    asking.tick(celsius=90, times=3)
    assert asking.run().state == "waiting_approval"
    assert not asking.of(DoAct)


def test_stopped_meanwhile_the_approved_act_is_refused(asking: Stand) -> None:
    asking.stopped = "paused by ann"
    asking.answer()
    asking.tick(celsius=90, times=3)
    assert (asking.run().state, asking.run().reason) == ("failed", "relieve: refused: paused by ann")
    assert not asking.of(DoAct)


def test_an_alert_that_resolves_meanwhile_takes_the_question_back(asking: Stand) -> None:
    asking.runner.resolved("f3", asking.now)
    asking.tick(celsius=70)
    assert asking.run().state == "skipped"
    assert asking.runner.status(asking.now).runs == ()


def test_a_crash_takes_the_question_back_and_asks_anew(asking: Stand) -> None:
    first = asking.last(AskApproval)
    asking.crash()
    asking.tick(celsius=90, times=4)
    second = asking.last(AskApproval)
    assert second.run_id == first.run_id
    assert second.call != first.call


def test_a_message_to_people_asks_nobody(store: Store) -> None:
    stand = Stand(store, playbooks(HOT.replace("{kind: set_knobs, arguments: {max_num_seqs: x0.5}}", NOTIFY)))
    stand.mode = "advise"
    stand.runner.take([alert()], stand.now)
    stand.tick(celsius=90, times=5)
    assert stand.engine.told == ["card 3"]


NOTIFY = '{kind: notify, arguments: {text: "card ${npu}"}}'


@pytest.fixture
def held(store: Store) -> Stand:
    """One that asks for two minutes and is approved, while another run changes the engine for five."""
    stand = Stand(store, limits=Limits(approval_seconds=120))
    stand.mode = "advise"
    stand.runner.take([alert()], stand.now)
    stand.tick(celsius=90, times=3)
    first = stand.last(AskApproval)
    stand.mode = "act"
    stand.runner.take([alert("4", started=1100.0)], stand.now)
    stand.heat(90.0, npu="4")
    stand.tick(celsius=90, times=4)
    assert stand.run().state == "verifying"
    stand.answers = [Answer(first.run_id, True, "ann", first.call)]
    return stand


def test_who_was_approved_in_time_waits_for_who_changes_and_is_no_question_any_more(held: Stand) -> None:
    held.tick(celsius=90)
    assert "relieve approval: approved by ann" in held.lines()
    assert held.run(0).reason == "approved by ann, waits: run 2 is changing something"
    assert held.runner.status(held.now).runs[0].question is None
    for _ in range(65):
        held.heat(90.0, npu="4")
        held.tick(celsius=90)
    assert [run.state for run in held.rows(PlaybookRun)] == ["verifying", "rolled_back"]
    assert [act.run_id for act in held.of(DoAct)] == [2, 1]


def test_a_no_is_heard_at_once(held: Stand) -> None:
    held.answers = [replace(held.answers[0], yes=False)]
    held.tick(celsius=90)
    assert held.run(0).reason == "relieve: declined by ann"


def test_an_alert_that_resolves_while_an_approved_one_waits_ends_it(held: Stand) -> None:
    held.tick(celsius=90)
    held.runner.resolved("f3", held.now)
    held.tick(celsius=90)
    assert held.run(0).state == "skipped"


def test_who_waits_for_leave_holds_nobody_up_and_waits_for_who_changes(asking: Stand) -> None:
    asking.runner.take([alert("4", started=1100.0)], asking.now)
    asking.heat(90.0, npu="4")
    asking.tick(celsius=90, times=3)
    first, second = asking.of(AskApproval)
    asking.answers = [
        Answer(second.run_id, True, "ann", second.call),
        Answer(first.run_id, True, "ann", first.call),
    ]
    most = 0
    for _ in range(120):
        asking.tick(celsius=90)
        states = [run.state for run in asking.rows(PlaybookRun)]
        most = max(most, sum(state in ("running", "verifying") for state in states))
    assert most == 1
    assert len(asking.of(DoAct)) == 2
