"""The adaptive mode's mind: inside its rails always, back when it does not know, quick to back off."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from change.engine import Values
from change.knobs import problems
from tests.tuner.records import record
from tuner.batcher import (
    BATCH,
    HIGH,
    LOW,
    PREFILL,
    SEQS,
    Batcher,
    BatcherSettings,
    Command,
    GoBack,
    Observation,
    Set,
    memory_limit,
)

BASE: Values = {SEQS: 64, BATCH: 1024, PREFILL: 256, "watermark": 0.0}
CEILINGS: Values = {SEQS: 256, BATCH: 8192, PREFILL: 8192, "watermark": 0.5}
FLOORS: Values = {SEQS: 1, BATCH: 256, PREFILL: 16, "watermark": 0.0}
CALM = Observation(
    base=BASE,
    values=BASE,
    ceilings=CEILINGS,
    floors=FLOORS,
    running=20.0,
    waiting=0.0,
    kv_free_tokens=60_000.0,
    kv_tokens=70_000.0,
    preemptions=0.0,
)


class Engine:
    """Does what the mind says, and says what it is told to."""

    def __init__(self, settings: BatcherSettings | None = None) -> None:
        self.mind = Batcher(settings)
        self.now = 0.0
        self.values = dict(BASE)
        self.preemptions = 0.0

    def look(
        self, seconds: float = 5.0, *, finished: int = 0, preempted: int = 0, **more: Any
    ) -> Command | None:
        self.now += seconds
        self.preemptions += preempted
        records = tuple(record(self.now - 6.0, tokens=101, gap=0.05, prompt=400) for _ in range(finished))
        seen = replace(CALM, values=dict(self.values), records=records, preemptions=self.preemptions)
        command = self.mind.step(self.now, replace(seen, **more))
        if isinstance(command, Set):
            self.values |= command.values
        elif isinstance(command, GoBack):
            self.values = dict(BASE)
        return command

    def learn(self) -> None:
        """See enough requests to predict the next ones."""
        for _ in range(30):
            assert self.look(finished=10) is None

    def crowded(self, **more: Any) -> Command | None:
        """Everybody is served at once, a queue stands, and memory has room for twice as many."""
        return self.look(running=64.0, waiting=30.0, kv_free_tokens=45_000.0, **more)


def learned(settings: BatcherSettings | None = None) -> Engine:
    engine = Engine(settings)
    engine.learn()
    return engine


def test_before_it_can_predict_it_changes_nothing() -> None:
    engine = Engine()
    for _ in range(20):
        assert engine.crowded() is None


def test_calm_traffic_is_left_to_the_promoted_values() -> None:
    engine = learned()
    for _ in range(100):
        assert engine.look(finished=10) is None
    assert engine.mind.target is None


def test_a_queue_before_full_sequences_gets_more_of_them_as_far_as_memory_goes() -> None:
    engine = learned()
    command = engine.crowded()
    assert isinstance(command, Set)
    assert 64 < command.values[SEQS] <= 128
    held = memory_limit(70_000, 450, 30, 0)
    assert command.values[SEQS] <= held


def test_the_token_budget_follows_the_sequences() -> None:
    engine = learned()
    small = {**BASE, BATCH: 320, PREFILL: 0}
    engine.values = dict(small)
    command = engine.crowded(base=small, floors={**FLOORS, BATCH: 64})
    assert isinstance(command, Set)
    assert command.values[BATCH] - command.values[SEQS] == small[BATCH] - small[SEQS]


def test_without_memory_a_queue_gets_no_more_sequences() -> None:
    engine = learned()
    assert engine.look(running=64.0, waiting=30.0, kv_free_tokens=100.0, kv_tokens=29_000.0) is None


def test_a_queue_that_waits_for_something_else_gets_no_more_sequences() -> None:
    engine = learned()
    assert engine.look(running=30.0, waiting=30.0) is None


def test_it_changes_at_most_once_in_the_time_set() -> None:
    engine = learned(BatcherSettings(change_seconds=60.0))
    changes = []
    for number in range(120):
        more: dict[str, Any] = {"kv_free_tokens": 45_000.0 if number % 2 else 30_000.0}
        if engine.look(running=64.0, waiting=30.0, **more) is not None:
            changes.append(engine.now)
    assert all(later - earlier >= 60.0 for earlier, later in pairwise(changes))
    assert len(changes) >= 1


def test_it_goes_back_once_the_queue_is_gone() -> None:
    engine = learned()
    assert isinstance(engine.crowded(), Set)
    commands = [engine.look(finished=10) for _ in range(10)]
    assert [type(one) for one in commands if one is not None] == [GoBack]
    assert engine.values == BASE


def test_preemptions_above_the_promoted_values_send_it_back_at_once() -> None:
    engine = learned()
    assert isinstance(engine.crowded(), Set)
    command = engine.crowded(preempted=1)
    assert isinstance(command, GoBack) and "preempted" in command.reason


def test_thrashing_slows_prompts_down_at_once_and_a_calm_hour_brings_them_back() -> None:
    engine = learned()
    command = engine.look(finished=5, preempted=3, running=60.0, waiting=5.0, kv_free_tokens=500.0)
    assert isinstance(command, Set)
    assert BASE[PREFILL] * LOW <= command.values[PREFILL] < BASE[PREFILL]
    assert command.values[SEQS] <= BASE[SEQS] and command.values[BATCH] == BASE[BATCH]
    for _ in range(720):
        engine.look(finished=5)
    assert engine.values == BASE and engine.mind.target is None


def test_a_burning_slo_sends_it_back_and_keeps_it_away() -> None:
    engine = learned(BatcherSettings(hold_seconds=300.0))
    assert isinstance(engine.crowded(), Set)
    command = engine.crowded(burning="ttft_p90_seconds is broken")
    assert isinstance(command, GoBack) and "ttft_p90" in command.reason
    left = engine.now
    while engine.now < left + 295:
        assert engine.crowded() is None
    assert isinstance(engine.crowded(), Set)


@pytest.mark.parametrize(
    "unknown",
    [
        {"running": None},
        {"waiting": None},
        {"kv_free_tokens": None},
        {"kv_tokens": None},
        {"kv_tokens": 0.0},
        {"preemptions": None},
        {"records": None},
        {"kv_free_tokens": math.nan},
        {"off": "a campaign is at work"},
        {"base": {BATCH: 1024}},
    ],
)
def test_what_it_does_not_know_sends_it_back(unknown: dict[str, Any]) -> None:
    engine = learned()
    assert isinstance(engine.crowded(), Set)
    assert isinstance(engine.look(**unknown), GoBack)
    assert engine.look(**unknown) is None


def test_the_reason_names_what_is_missing() -> None:
    engine = learned()
    engine.crowded()
    command = engine.look(kv_free_tokens=None)
    assert command == GoBack("not known: free KV memory")


@given(
    budget=st.floats(0, 1e7), held=st.floats(0.5, 1e5), deviation=st.floats(0, 1e5), margin=st.floats(0, 6)
)
def test_the_memory_limit_fits(budget: float, held: float, deviation: float, margin: float) -> None:
    limit = memory_limit(budget, held, deviation, margin)
    assert limit >= 0
    assert limit * held + margin * deviation * math.sqrt(limit) <= budget * (1 + 1e-9) + 1e-6


FIGURE = st.none() | st.floats(0, 2e5) | st.just(math.nan)
LOOKS = st.lists(
    st.fixed_dictionaries(
        {"seconds": st.floats(0, 120), "finished": st.integers(0, 60), "preempted": st.integers(0, 20)},
        optional={
            "running": st.none() | st.floats(0, 300),
            "waiting": st.none() | st.floats(0, 500),
            "kv_free_tokens": FIGURE,
            "kv_tokens": FIGURE,
            "burning": st.none() | st.just("ttft"),
            "off": st.none() | st.just("paused"),
        },
    ),
    max_size=60,
)
BASES = st.tuples(st.integers(1, 256), st.integers(256, 8192), st.just(0) | st.integers(16, 4096))


@settings(max_examples=150, deadline=None)
@given(LOOKS, BASES)
def test_it_never_leaves_the_rails_and_is_back_whenever_it_says_so(
    looks: list[dict[str, Any]], base: tuple[int, int, int]
) -> None:
    engine = learned()
    promoted: Values = dict(zip((SEQS, BATCH, PREFILL), map(float, base), strict=True))
    engine.values = dict(promoted)
    engine.mind.dropped(-1e9, "another base")
    for look in looks:
        floors = {**FLOORS, BATCH: max(16.0, engine.values[SEQS])}
        command = engine.look(**{"base": promoted, "floors": floors, **look})
        if isinstance(command, GoBack):
            engine.values = dict(promoted)
        for name, value in engine.values.items():
            if value != promoted.get(name, value):
                assert promoted[name] * LOW <= value <= promoted[name] * HIGH
                assert value == int(value)
        if engine.mind.target is not None:
            assert problems(engine.mind.target, CEILINGS, {**FLOORS, BATCH: engine.values[SEQS]}) == []
        figures = [look.get(name, 0.0) for name in ("running", "waiting", "kv_free_tokens", "kv_tokens")]
        if look.get("off") or any(figure is None or math.isnan(figure) for figure in figures):
            assert engine.mind.target is None
