"""Groups are evaluated when they are due, and what fires outlives a restart, an error and a store that is away."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select
from sqlalchemy.orm import Session

from rules.alert import Alert
from rules.evaluator import Evaluator
from rules.expression import EvaluationError
from rules.rule import RuleGroup
from store import Store, StoreError, open_store
from store.alert_models import AlertRow
from tests.rules.script import START, STEP, Script, rules


@pytest.fixture
def store() -> Iterator[Store]:
    """A store in memory."""
    opened = open_store("sqlite:///:memory:")
    yield opened
    opened.close()


class CountingStore(Store):
    """A store that counts its write sessions, and may be away."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.writes = 0
        self.away = False

    @contextmanager
    def session(self) -> Iterator[Session]:
        """Count it."""
        if self.away:
            raise StoreError("the disk is full")
        self.writes += 1
        with self._inner.session() as session:
            yield session

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Reading is no write."""
        if self.away:
            raise StoreError("the disk is full")
        with self._inner.reading() as session:
            yield session


def rows(store: Store) -> list[AlertRow]:
    with store.reading() as session:
        return list(session.scalars(select(AlertRow)))


def times(alerts: tuple[Alert, ...]) -> list[tuple[object, ...]]:
    return [
        (one.labels, one.state, one.active_at, one.fired_at, one.resolved_at, one.keep_firing_since)
        for one in alerts
    ]


def test_a_group_is_evaluated_at_the_multiples_of_its_interval_and_only_then() -> None:
    evaluator, script = Evaluator(rules("for: 15s")), Script(a=1)
    assert evaluator.tick(script, START + 4.2).groups == ("g",)
    assert evaluator.tick(script, START + 14.9).groups == ()
    came = evaluator.tick(script, START + 15.3)
    assert [(one.state, one.active_at, one.fired_at) for one in came.changes] == [
        ("firing", START, START + 15)
    ]
    assert came.to_send == evaluator.alerts()
    (health,) = evaluator.health()
    assert (health.last_evaluation, health.missed) == (START + 15, 0)


def test_times_that_went_by_are_counted_and_evaluated_once() -> None:
    evaluator, script = Evaluator(rules()), Script()
    evaluator.tick(script, START)
    evaluator.tick(script, START + 61)
    (health,) = evaluator.health()
    assert (health.last_evaluation, health.missed) == (START + 60, 3)


def test_the_stopwatch_tells_how_long_a_group_takes() -> None:
    readings = iter([10.0, 10.25])
    evaluator = Evaluator(rules())
    evaluator.tick(Script(), START, lambda: next(readings))
    assert evaluator.health()[0].duration_seconds == 0.25


def test_an_evaluation_that_fails_changes_and_sends_nothing_and_is_said() -> None:
    evaluator, script = Evaluator(rules()), Script(a=1)
    evaluator.tick(script, START)
    before = evaluator.alerts()
    script.broken = EvaluationError("too much work")
    came = evaluator.tick(script, START + 300)
    assert (came.changes, came.to_send, evaluator.alerts()) == ((), (), before)
    (health,) = evaluator.health()
    assert health.last_error == "R: too much work"
    assert health.rules[0].failures == 1
    script.broken = None
    evaluator.tick(script, START + 315)
    (health,) = evaluator.health()
    assert (health.last_error, health.rules[0].failures) == (None, 1)


def test_one_rule_that_fails_does_not_keep_the_others_from_firing() -> None:
    groups = (*rules('labels: {n: "same"}'), *rules(name="Other"))
    evaluator = Evaluator(groups)
    came = evaluator.tick(Script(a=1, b=1), START)
    assert [one.rule for one in came.changes] == ["Other", "Other"]
    assert "sum by" in str(evaluator.health()[0].last_error)


def test_the_store_is_written_once_a_tick_and_only_when_an_alert_changed(store: Store) -> None:
    counting = CountingStore(store)
    evaluator, script = Evaluator(rules(), counting, "e"), Script(a=1, b=2)
    evaluator.tick(script, START)
    assert counting.writes == 1
    for number in range(1, 200):
        script.set(a=number)
        evaluator.tick(script, START + number * STEP)
    assert counting.writes == 1
    script.set(a=None, b=None)
    evaluator.tick(script, START + 200 * STEP)
    assert counting.writes == 2
    assert {row.state for row in rows(store)} == {"resolved"}


def test_the_time_of_a_pending_alert_is_brought_up_to_date_once_a_minute(store: Store) -> None:
    counting = CountingStore(store)
    evaluator = Evaluator(rules("for: 1h"), counting, "e")
    for number in range(41):
        evaluator.tick(Script(a=1), START + number * STEP)
    assert counting.writes == 1 + 10
    assert rows(store)[0].time == START + 600


def test_a_resolved_alert_leaves_the_store_after_a_quarter_of_an_hour(store: Store) -> None:
    evaluator, script = Evaluator(rules(), store, "e"), Script(a=1)
    evaluator.tick(script, START)
    script.set(a=None)
    for number in range(1, 62):
        evaluator.tick(script, START + number * STEP)
        assert len(rows(store)) == 1
    evaluator.tick(script, START + 62 * STEP)
    assert rows(store) == []


def test_after_a_restart_what_fires_is_neither_forgotten_nor_fired_anew(store: Store) -> None:
    script = Script(a=1)
    Evaluator(rules(), store, "e").tick(script, START)
    again = Evaluator(rules(), store, "e")
    came = again.tick(script, START + 20)
    assert came.changes == ()
    assert [one.fired_at for one in came.to_send] == [START]
    assert [(one.rule, one.group, one.for_seconds) for one in came.restored] == [("R", "g", 0.0)]
    assert again.tick(script, START + 40).restored == ()


def test_another_engines_alerts_are_its_own(store: Store) -> None:
    Evaluator(rules(), store, "e").tick(Script(a=1), START)
    assert Evaluator(rules(), store, "f").tick(Script(), START + 15).restored == ()
    assert [row.engine for row in rows(store)] == ["e"]


def test_an_alert_is_not_resolved_because_the_readings_began_with_the_daemon(store: Store) -> None:
    Evaluator(rules(), store, "e").tick(Script(a=1), START)
    evaluator = Evaluator(rules(), store, "e", readings_since=START + 30)
    assert evaluator.tick(Script(), START + 45).changes == ()
    assert evaluator.tick(Script(), START + 315).changes == ()
    came = evaluator.tick(Script(), START + 330)
    assert [(one.state, one.resolved_at) for one in came.changes] == [("resolved", START + 330)]


def test_a_pending_alert_goes_on_after_a_restart_but_time_away_does_not_count(store: Store) -> None:
    script = Script(a=1)
    for number in range(5):
        Evaluator(rules("for: 5m"), store, "e").tick(script, START + number * STEP)
    away = Evaluator(rules("for: 5m"), store, "e")
    away.tick(script, START + 60 + 600)
    (alert,) = away.alerts()
    assert (alert.state, alert.active_at) == ("pending", START + 600)
    late = Evaluator(rules("for: 5m"), store, "e")
    late.tick(script, START + 3 * 3600)
    assert late.alerts()[0].active_at == START + 3 * 3600


def test_alerts_of_a_rule_that_is_gone_are_resolved_once_and_forgotten(store: Store) -> None:
    Evaluator(rules(), store, "e").tick(Script(a=1), START)
    evaluator = Evaluator(rules(name="Other"), store, "e")
    came = evaluator.tick(Script(), START + 15)
    assert [(one.rule, one.state, one.resolved_at) for one in came.to_send] == [("R", "resolved", START + 15)]
    assert came.changes == came.to_send
    assert evaluator.tick(Script(), START + 30).to_send == ()
    assert rows(store) == []


def trouble(evaluator: Evaluator) -> str | None:
    return evaluator.trouble


def test_a_store_that_is_away_stops_no_alert_and_hears_of_it_later(store: Store) -> None:
    counting = CountingStore(store)
    counting.away = True
    evaluator, script = Evaluator(rules(), counting, "e"), Script(a=1)
    assert [one.state for one in evaluator.tick(script, START).changes] == ["firing"]
    assert trouble(evaluator) == "the disk is full"
    counting.away = False
    evaluator.tick(script, START + 15)
    assert trouble(evaluator) is None
    assert [row.fired_at for row in rows(store)] == [START]
    counting.away = True
    script.set(a=None)
    evaluator.tick(script, START + 30)
    assert trouble(evaluator) == "the disk is full"
    counting.away = False
    evaluator.tick(script, START + 45)
    assert [(row.state, row.resolved_at) for row in rows(store)] == [("resolved", START + 30)]


def test_a_value_that_is_no_number_goes_through_the_store(store: Store) -> None:
    groups = rules(expr='"x != 5"')
    Evaluator(groups, store, "e").tick(Script(a=math.nan), START)
    again = Evaluator(groups, store, "e", readings_since=START)
    again.tick(Script(), START + 15)
    assert math.isnan(again.alerts()[0].value)


def test_labels_with_control_characters_go_through_the_store(store: Store) -> None:
    script = Script()
    script.values = {(("n", "\x00\x1b[2J\n'\"\\"),): 1.0}
    Evaluator(rules(), store, "e").tick(script, START)
    again = Evaluator(rules(), store, "e")
    assert again.tick(script, START + 15).changes == ()
    assert len(again.alerts()) == len(rows(store)) == 1


def test_a_clock_that_is_set_back_neither_stops_the_evaluations_nor_begins_an_alert_anew() -> None:
    evaluator, script = Evaluator(rules("for: 1m")), Script(a=1)
    for number in range(4):
        evaluator.tick(script, START + number * STEP)
    assert evaluator.tick(script, START + 45 - 7200).groups == ("g",)
    assert evaluator.alerts()[0].state == "firing"
    assert evaluator.tick(script, START + 45 - 7200 - 1).groups == ()


_number = count()
_shared = open_store("sqlite:///:memory:")


@settings(max_examples=60)
@given(
    st.lists(st.sampled_from("110abe"), min_size=2, max_size=40),
    st.sets(st.integers(1, 39)),
    st.sampled_from(["", "for: 30s", "for: 1m, keep_firing_for: 30s", "keep_firing_for: 45s"]),
)
def test_restarts_in_the_middle_give_what_none_gives(
    pattern: list[str], restarts: set[int], text: str
) -> None:
    def walk(restart_at: set[int], engine: str) -> list[list[tuple[object, ...]]]:
        groups: tuple[RuleGroup, ...] = rules(text)
        evaluator, script = Evaluator(groups, _shared, engine), Script()
        seen = []
        for number, mark in enumerate(pattern):
            if number in restart_at:
                evaluator = Evaluator(groups, _shared, engine)
            script.broken = EvaluationError("broken") if mark == "e" else None
            script.set(a=1.0 if mark in "1a" else None, b=2.0 if mark in "1b" else None)
            evaluator.tick(script, START + number * STEP)
            seen.append(sorted(times(evaluator.alerts()), key=str))
        return seen

    # Each walk is that of another engine: to open a store takes longer than the walk.
    assert walk(restarts, f"e{next(_number)}") == walk(set(), f"e{next(_number)}")
