"""The rails alone: each reason why not."""

from __future__ import annotations

import pytest

from rules.playbook.messages import Mode
from rules.playbook.rails import Limits, Past, Present, Rails, rests
from tests.rules.playbook.stand import playbooks

HOT = playbooks()["hot"]
RAILS = Rails(Limits(acts_per_hour=2, allow=frozenset({"set_knobs", "notify"})))


def test_a_rest_is_never_shorter_than_the_alert_and_the_verification() -> None:
    assert rests(HOT, 60.0) == (1800, 360)
    assert rests(HOT, 1700.0) == (2000, 2000)


@pytest.mark.parametrize(
    ("playbook", "target", "ended", "rests"),
    [
        ("hot", "npu 3", 900.0, True),
        ("hot", "npu 3", 800.0, False),
        ("hot", "npu 4", 900.0, False),
        ("other", "npu 3", 900.0, False),
    ],
)
def test_rests_on_its_own_target(playbook: str, target: str, ended: float, rests: bool) -> None:
    past = [Past(playbook, target, ended, 200.0, 50.0)]
    assert (RAILS.admit(HOT, "npu 3", past, [], 1000.0) is not None) == rests


@pytest.mark.parametrize(
    ("changes", "ended", "waits"), [(True, 960.0, True), (True, 940.0, False), (False, 960.0, False)]
)
def test_who_changes_waits_for_the_target(changes: bool, ended: float, waits: bool) -> None:
    past = [Past("other", "npu 3", ended, 200.0, 50.0)]
    reason = RAILS.start("npu 3", past, [], changes=changes, stopped=None, now=1000.0)
    assert (reason is not None) == waits


@pytest.mark.parametrize(
    ("changed", "waits"), [({"engine"}, "engine was changed"), ({"host"}, "None"), (set(), "None")]
)
def test_what_a_run_about_one_card_did_to_the_engine_holds_up_who_would_change_that(
    changed: set[str], waits: str
) -> None:
    past = [Past("other", "npu 4", 960.0, 200.0, 50.0, frozenset(changed))]
    for target in ("npu 3", "engine"):
        reason = RAILS.start(target, past, [], changes=True, stopped=None, now=1000.0, playbook=HOT)
        assert waits in str(reason)
    until = RAILS.rest_until(HOT, "npu 3", past, changes=True)
    assert until == (1010.0 if "engine" in changed else 0.0)


def test_its_own_cool_down_is_waited_for_though_the_target_rests_shorter() -> None:
    past = [Past("hot", "npu 3", 900.0, 7200.0, 360.0)]
    assert RAILS.rest_until(HOT, "npu 3", past, changes=True) == 8100.0


def test_one_at_a_time() -> None:
    present = [Present(7, "other", "engine", waiting=False, holds=True)]
    assert "run 7 (other) is walking" in str(
        RAILS.start("npu 3", [], present, changes=True, stopped=None, now=1000.0)
    )
    assert RAILS.start("npu 3", [], present, changes=False, stopped=None, now=1000.0) is None


@pytest.mark.parametrize(
    ("kind", "acts", "mode", "dry", "stopped", "reason"),
    [
        ("set_knobs", [], "act", False, None, None),
        ("restart", [], "act", False, None, "restart is not in playbooks.allow"),
        ("set_knobs", [], "observe", False, None, "the mode is observe now"),
        ("set_knobs", [], "observe", True, None, None),
        ("set_knobs", [], "act", False, "paused by ann", "paused by ann"),
        ("set_knobs", [900.0, 950.0], "act", False, None, "playbooks.acts_per_hour (2) is used up"),
        ("set_knobs", [900.0, -2700.0], "act", False, None, None),
        ("notify", [900.0, 950.0], "act", False, None, None),
    ],
)
def test_an_act(
    kind: object, acts: list[float], mode: Mode, dry: bool, stopped: str | None, reason: str | None
) -> None:
    assert RAILS.act(kind, acts, mode=mode, dry=dry, stopped=stopped, now=1000.0) == reason  # type: ignore[arg-type]
