"""What waits: one place for each alert, the oldest goes first, and there is an end to it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rules.alertmanager.payload import Posted
from rules.alertmanager.queue import AlertQueue
from tests.rules.alertmanager.alerts import NOW


def a_posted(name: str, ends_at: float = NOW + 60, *, firing: bool = True) -> Posted:
    return Posted((("alertname", name),), (), NOW - 60, ends_at, firing)


def names(alerts: tuple[Posted, ...]) -> list[str]:
    return [dict(alert.labels)["alertname"] for alert in alerts]


def test_the_latest_state_takes_the_place_of_the_one_that_waits() -> None:
    queue = AlertQueue()
    queue.put([a_posted("a"), a_posted("b"), a_posted("a", NOW, firing=False)])
    assert names(queue.batch()) == ["a", "b"]
    assert not queue.batch()[0].firing


def test_the_oldest_goes_when_it_is_full_and_is_counted() -> None:
    queue = AlertQueue(capacity=3)
    assert queue.put([a_posted(name) for name in "abcde"]) == 2
    assert names(queue.batch()) == ["c", "d", "e"]
    assert queue.put([a_posted("c", NOW, firing=False)]) == 0, "a new state needs no new place"


def test_a_state_that_came_during_the_sending_stays() -> None:
    queue = AlertQueue()
    queue.put([a_posted("a"), a_posted("b")])
    sending = queue.batch()
    queue.put([a_posted("a", NOW, firing=False)])
    queue.done(sending)
    assert names(queue.batch()) == ["a"]
    assert not queue.batch()[0].firing


def test_what_fired_once_and_may_be_over_is_not_sent_any_more() -> None:
    queue = AlertQueue()
    queue.put([a_posted("old", NOW), a_posted("new", NOW + 1), a_posted("over", NOW - 9, firing=False)])
    assert queue.expire(NOW) == 1
    assert names(queue.batch()) == ["new", "over"]


@given(st.lists(st.integers(0, 200), max_size=400), st.integers(1, 70))
def test_a_batch_is_never_larger_than_it_may_be(numbers: list[int], batch: int) -> None:
    queue = AlertQueue(batch=batch)
    queue.put(a_posted(str(n)) for n in numbers)
    assert len(queue.batch()) == min(batch, len(set(numbers)))


class QueueAndModel(RuleBasedStateMachine):
    """Beside a plain dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = AlertQueue(capacity=5, batch=2)
        self.model: dict[str, Posted] = {}
        self.sending: tuple[Posted, ...] = ()

    @rule(name=st.sampled_from("abcdefgh"), ends=st.floats(NOW, NOW + 60), firing=st.booleans())
    def put(self, name: str, ends: float, firing: bool) -> None:
        alert = a_posted(name, ends, firing=firing)
        expected = 0
        if name not in self.model and len(self.model) == 5:
            del self.model[next(iter(self.model))]
            expected = 1
        self.model[name] = alert
        assert self.queue.put([alert]) == expected

    @rule()
    def begin(self) -> None:
        self.sending = self.queue.batch()
        assert list(self.sending) == list(self.model.values())[:2]

    @rule()
    def end(self) -> None:
        self.queue.done(self.sending)
        for name, alert in list(self.model.items()):
            if any(alert is one for one in self.sending):
                del self.model[name]
        self.sending = ()

    @invariant()
    def holds_the_same(self) -> None:
        assert len(self.queue) == len(self.model) <= 5
        assert all(self.queue.holds(alert.fingerprint) for alert in self.model.values())


TestQueueAndModel = QueueAndModel.TestCase
