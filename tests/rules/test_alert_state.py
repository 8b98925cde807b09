"""How alerts come and go: Prometheus' states, one evaluation after the other."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.sample import Labels, labels
from rules.alert_state import (
    RESEND_SECONDS,
    RESOLVED_SECONDS,
    BadResult,
    Standing,
    advance,
    sending,
    shifted,
)
from rules.readings import Point
from rules.rule import Rule
from tests.rules.script import START, STEP, rules

HOLDS = [Point(labels(n="1"), 7.0)]


def rule(text: str = "") -> Rule:
    return rules(text)[0].rules[0]


class Walk:
    """One rule, evaluated every `STEP`."""

    def __init__(self, one: Rule) -> None:
        self.rule = one
        self.at = START - STEP
        self.standings: dict[Labels, Standing] = {}
        self.sent: list[tuple[float, str]] = []

    def step(self, points: list[Point]) -> str:
        """Evaluate once and give the state of the only alert, `none` without one."""
        self.at += STEP
        self.standings = advance(self.rule, "g", self.standings, points, self.at).standings
        due = sending(self.standings, self.at, STEP)
        self.sent += [(self.at - START, one.alert.state) for one in due.values()]
        self.standings |= due
        return next((one.alert.state for one in self.standings.values()), "none")

    def steps(self, pattern: str) -> str:
        """Evaluate with the condition holding at each `1`; one letter of the state for each."""
        return "".join(self.step(HOLDS if mark == "1" else [])[0] for mark in pattern)


def test_a_condition_fires_once_it_has_held_for_the_time() -> None:
    walk = Walk(rule("for: 45s"))
    assert walk.steps("111110") == "pppffr"
    (standing,) = walk.standings.values()
    alert = standing.alert
    assert (alert.active_at, alert.fired_at, alert.resolved_at) == (START, START + 45, START + 75)
    assert alert.labels == labels(alertname="R", n="1", severity="warning")


def test_without_a_time_it_fires_at_once_and_a_gap_begins_it_anew() -> None:
    assert Walk(rule()).steps("101") == "frf"
    assert Walk(rule("for: 30s")).steps("1101110") == "ppnppfr"


def test_it_keeps_firing_for_the_time_after_the_condition_last_held() -> None:
    assert Walk(rule("keep_firing_for: 30s")).steps("10010001") == "ffffffrf"


def test_a_resolved_alert_is_kept_for_a_quarter_of_an_hour_and_sent_again() -> None:
    walk = Walk(rule())
    assert walk.steps("10") == "fr"
    assert walk.steps("0" * int(RESOLVED_SECONDS / STEP)) == "r" * int(RESOLVED_SECONDS / STEP)
    assert walk.steps("0") == "n"
    resolved = [time for time, state in walk.sent if state == "resolved"]
    assert resolved[0] == STEP and resolved[1] - resolved[0] > RESEND_SECONDS
    assert len(resolved) == 13


def test_what_fires_is_sent_at_once_and_then_after_each_delay_and_is_valid_for_four() -> None:
    walk = Walk(rule("for: 15s"))
    walk.steps("1" * 12)
    # More than a minute has to pass, as Prometheus counts it.
    assert [time for time, _ in walk.sent] == [15.0, 90.0, 165.0]
    (standing,) = walk.standings.values()
    assert standing.alert.valid_until == START + 165.0 + 4 * RESEND_SECONDS
    slow = sending(walk.standings, walk.at + 900, 300.0)
    assert [one.alert.valid_until for one in slow.values()] == [walk.at + 900 + 4 * 300.0]


def test_an_alert_that_comes_back_is_another_one_and_sent_again() -> None:
    walk = Walk(rule())
    walk.steps("101")
    assert walk.sent == [(0.0, "firing"), (15.0, "resolved"), (30.0, "firing")]
    (standing,) = walk.standings.values()
    assert standing.alert.active_at == START + 30 and standing.alert.resolved_at is None


def test_labels_are_the_series_own_then_the_rules_and_an_empty_one_is_none() -> None:
    one = rule(
        'labels: {n: "over {{ $labels.n }}", job: ""}, annotations: {s: "{{ $value }} of {{ $labels.n }}"}'
    )
    point = Point((("__name__", "x"), ("job", "j"), ("n", "1")), 2.5)
    (labels_, standing), *rest = advance(one, "g", {}, [point], START).standings.items()
    assert not rest
    assert labels_ == labels(alertname="R", n="over 1", severity="warning")
    assert standing.alert.annotations == {"s": "2.5 of 1"}


def test_two_elements_with_the_same_labels_are_an_error_that_changes_nothing() -> None:
    one = rule('labels: {n: "all"}')
    with pytest.raises(BadResult, match=r"two series are the same alert .*sum by"):
        advance(one, "g", {}, [Point(labels(n="1"), 1.0), Point(labels(n="2"), 1.0)], START)


def test_more_alerts_than_anybody_reads_are_an_error() -> None:
    with pytest.raises(BadResult, match="1001 alerts at once, over 1000"):
        advance(rule(), "g", {}, [Point(labels(n=str(one)), 1.0) for one in range(1001)], START)


def test_half_a_character_in_a_label_is_an_error_and_a_control_character_is_none() -> None:
    with pytest.raises(BadResult, match="half a character"):
        advance(rule(), "g", {}, [Point(labels(n="\ud800"), 1.0)], START)
    assert advance(rule(), "g", {}, [Point(labels(n="\x00\x1b[2J\n"), 1.0)], START).standings


def test_a_value_that_is_no_number_is_an_alert_all_the_same() -> None:
    (standing,) = advance(rule(), "g", {}, [Point(labels(n="1"), math.nan)], START).standings.values()
    assert math.isnan(standing.alert.value)


def test_from_the_store_nothing_is_resolved_until_the_readings_go_back_far_enough() -> None:
    walk = Walk(rule())
    walk.steps("1")
    kept = {own: replace(one, unseen_since=walk.at) for own, one in walk.standings.items()}
    early = advance(walk.rule, "g", kept, [], walk.at + STEP, settled=False)
    assert early.changes == () and early.standings == kept
    late = advance(walk.rule, "g", kept, [], walk.at + STEP)
    assert [one.state for one in late.changes] == ["resolved"]


def test_the_time_in_which_nobody_watched_does_not_count_for_a_pending_alert() -> None:
    walk = Walk(rule("for: 1m"))
    walk.steps("111")
    kept = {own: replace(one, unseen_since=walk.at) for own, one in walk.standings.items()}
    again = advance(walk.rule, "g", kept, HOLDS, walk.at + 600)
    (standing,) = again.standings.values()
    assert standing.alert.state == "pending" and standing.alert.active_at == START + 600


def test_a_clock_that_is_set_back_leaves_how_long_it_held() -> None:
    walk = Walk(rule("for: 45s"))
    walk.steps("111")
    back = shifted(walk.standings, 3600.0)
    (standing,) = advance(walk.rule, "g", back, HOLDS, walk.at + STEP - 3600).standings.values()
    assert standing.alert.state == "firing"


@given(
    st.lists(st.booleans(), max_size=60),
    st.integers(0, 6),
    st.integers(0, 6),
    st.lists(st.booleans(), max_size=60),
)
def test_it_never_fires_before_its_time_and_resolves_only_what_fired(
    first: list[bool], hold: int, keep: int, second: list[bool]
) -> None:
    walk = Walk(rule(f"for: {hold * 15}s, keep_firing_for: {keep * 15}s"))
    held, last_held, before = 0, -math.inf, "none"
    for number, holds in enumerate(first + second):
        held = held + 1 if holds else 0
        last_held = number if holds else last_held
        state = walk.step(HOLDS if holds else [])
        if state == "firing":
            if before != "firing":
                assert held > hold
            assert number - last_held <= keep
        if state == "resolved":
            assert before in ("firing", "resolved")
        if state == "pending":
            assert 0 < held <= hold
        if held > hold:
            assert state == "firing"
        before = state
