"""EngineDown lasts as long as the engine is down, whatever Trimtab remembers of the time before."""

from __future__ import annotations

from functools import partial

import pytest

from collectors.history import History
from collectors.sample import Sample, labels
from daemon.alerting.samples import samples
from rules.evaluator import Evaluator
from rules.history_readings import HistoryReadings
from rules.rule import RuleGroup
from rules.rule_file import load, shipped_files
from store import Store, open_store

START = 1_700_000_000.0
EVERY = 5


class Process:
    """One start of Trimtab: an empty history over the store that stays."""

    def __init__(self, store: Store, began: float, name: str = "EngineDown", collector: str = "vllm") -> None:
        (rule,) = (one for group in load(shipped_files()) for one in group.rules if one.name == name)
        self._history = History()
        self._own = labels(collector=collector)
        self.evaluator = Evaluator([RuleGroup("engine", EVERY, (rule,))], store, "e", readings_since=began)
        self._readings = HistoryReadings(self._history, partial(samples, self.evaluator))

    def read(self, at: float, success: float) -> None:
        """Take one reading of the engine."""
        self._history.add([Sample("trimtab_collector_success", success, at, self._own)], "self")

    def live(self, begin: float, seconds: int, success: float) -> list[str]:
        """Look at the engine every few seconds; the states that the alert entered."""
        states: list[str] = []
        for second in range(0, seconds, EVERY):
            at = begin + second
            self.read(at, success)
            states += [one.state for one in self.evaluator.tick(self._readings, at).changes]
        return states


def test_a_restart_beside_a_dead_engine_resolves_nothing_until_it_answers() -> None:
    store = open_store("sqlite:///:memory:")
    before = Process(store, START)
    assert before.live(START, 300, 1.0) == []
    assert before.live(START + 300, 100, 0.0) == ["pending", "firing"]
    restarted = START + 410
    after = Process(store, restarted)
    assert after.live(restarted, 3000, 0.0) == []
    assert [one.state for one in after.evaluator.alerts()] == ["firing"]
    assert after.live(restarted + 3000, 60, 1.0) == ["resolved"]
    assert after.live(restarted + 3060, 60, 0.0) == ["pending", "firing"]
    store.close()


def test_an_engine_that_never_served_is_none_that_is_down_after_a_restart_either() -> None:
    store = open_store("sqlite:///:memory:")
    assert Process(store, START).live(START, 300, 0.0) == []
    store.close()


@pytest.mark.parametrize(
    ("name", "collector"), [("EngineDown", "vllm"), ("WatchedEngineDown", "engine:decode-0")]
)
def test_an_engine_that_served_for_parts_of_two_minutes_served(name: str, collector: str) -> None:
    store = open_store("sqlite:///:memory:")
    process = Process(store, START, name, collector)
    loading = 3 * 3600 - int(START % 60) + 25  # it answers 25 s into a minute, and until 35 s into the next
    for second in range(0, loading, EVERY):
        process.read(START + second, 0.0)
    assert process.live(START + loading, 70, 1.0) == []
    assert process.live(START + loading + 70, 100, 0.0) == ["pending", "firing"]
    store.close()
