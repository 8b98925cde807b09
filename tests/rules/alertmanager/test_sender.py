"""All Alertmanagers: each gets every alert, and silences are asked of those that know the alert."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from rules.alert import fingerprint
from rules.alertmanager.sender import Sender
from rules.alertmanager.suppression import LONGEST_QUERY, filters, read
from rules.alertmanager.target import Target
from rules.alertmanager.webhook_body import parse
from rules.delivery.http import Access, Wire
from tests.rules.alertmanager.alerts import NOW, an_alert
from tests.rules.alertmanager.posts import a_post, an_item
from tests.rules.alertmanager.stand import Stand, alertmanager_stand


@pytest.fixture
def first() -> Iterator[Stand]:
    with alertmanager_stand(Stand()) as stand:
        yield stand


@pytest.fixture
def second() -> Iterator[Stand]:
    with alertmanager_stand(Stand()) as stand:
        yield stand


def dead() -> Stand:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return Stand(url=f"http://127.0.0.1:{probe.getsockname()[1]}")


def with_sender(
    stands: list[Stand], story: Callable[[Sender], Coroutine[Any, Any, None]], **options: Any
) -> Sender:
    async def live() -> Sender:
        targets = [
            Target(f"am{n}", stand.url, Wire(Access(timeout=5.0)), lambda: NOW)
            for n, stand in enumerate(stands)
        ]
        sender = Sender(targets, **options)
        try:
            await story(sender)
        finally:
            await sender.close()
        return sender

    return asyncio.run(live())


def test_an_alert_of_others_is_asked_for_as_alertmanager_has_it(first: Stand) -> None:
    raw = {"alertname": "A", "k8s.pod": "p", "text": "two\nlines", "team": "t"}
    key = fingerprint(tuple(sorted(raw.items())))
    first.kept[key] = {"labels": raw}
    first.state["A"] = "suppressed"
    (came,) = parse(a_post(an_item(labels=raw, fingerprint=key))).alerts

    async def story(sender: Sender) -> None:
        sender.learn(came.fingerprint, came.unchanged)
        assert await sender.suppressed(key, NOW) is True

    with_sender([first], story)
    assert set(first.queries[0]["filter"]) == {'alertname="A"', 'team="t"'}


def test_every_instance_gets_every_alert_and_a_dead_one_stops_no_other(first: Stand, second: Stand) -> None:
    async def story(sender: Sender) -> None:
        await sender.send(
            [an_alert("A"), an_alert("B", state="resolved"), an_alert("C", state="pending")], NOW + 60
        )
        assert [target.health.queued for target in sender.targets] == [0, 2, 0]

    with_sender([first, dead(), second], story)
    assert first.names() == second.names() == {"A", "B"}


def test_external_labels_and_our_page_go_with_it(first: Stand) -> None:
    async def story(sender: Sender) -> None:
        await sender.send([an_alert("A")], NOW)
        ((key, alert),) = first.kept.items()
        assert alert["labels"]["cluster"] == "north"
        assert alert["generatorURL"] == "http://trimtab:9470/alerts"
        assert sender.is_ours(key)
        assert not sender.is_ours(an_alert("A").fingerprint), "the fingerprint is that of what was sent"

    with_sender([first], story, external_labels={"cluster": "north"}, page_url="http://trimtab:9470/alerts")


def test_a_new_alert_is_sent_before_it_is_asked_about(first: Stand) -> None:
    first.state = {"A": "suppressed"}

    async def story(sender: Sender) -> None:
        sender.put([an_alert("A"), an_alert("B")], NOW)
        assert await sender.suppressed(an_alert("A").fingerprint, NOW) is True
        assert await sender.suppressed(an_alert("B").fingerprint, NOW) is False

    with_sender([first], story, external_labels={"cluster": "north"})


def test_one_instance_that_holds_it_back_is_enough(first: Stand, second: Stand) -> None:
    second.state = {"A": "suppressed"}

    async def story(sender: Sender) -> None:
        await sender.send([an_alert("A")], NOW)
        assert await sender.suppressed(an_alert("A").fingerprint, NOW) is True

    with_sender([first, dead(), second], story)


def test_an_instance_that_hangs_does_not_drown_what_another_says(first: Stand, second: Stand) -> None:
    first.hold = threading.Event()
    second.state = {"A": "suppressed"}

    async def story(sender: Sender) -> None:
        sender.put([an_alert("A")], NOW)
        assert await sender.suppressed(an_alert("A").fingerprint, NOW) is True
        assert [target.health.queued for target in sender.targets] == [1, 0], (
            "what was cut short is sent again"
        )

    with_sender([first, second], story, answer_seconds=0.5)


def test_an_instance_that_does_not_know_it_has_no_say(first: Stand, second: Stand) -> None:
    async def story(sender: Sender) -> None:
        await sender.send([an_alert("A")], NOW)
        second.kept.clear()
        assert await sender.suppressed(an_alert("A").fingerprint, NOW) is False
        first.kept.clear()
        assert await sender.suppressed(an_alert("A").fingerprint, NOW) is None
        first.answers = [500]
        assert await sender.suppressed(an_alert("A").fingerprint, NOW) is None

    with_sender([first, second], story)


def test_nobody_answers_is_unknown_and_nobody_there_is_no(first: Stand) -> None:
    async def story(sender: Sender) -> None:
        sender.put([an_alert("A")], NOW)
        assert await sender.suppressed(an_alert("A").fingerprint, NOW) is None

    with_sender([dead()], story)

    async def alone(sender: Sender) -> None:
        assert await sender.suppressed(an_alert("A").fingerprint, NOW) is False

    with_sender([], alone)


def test_an_alert_of_another_sender_is_asked_about_as_it_came(first: Stand) -> None:
    first.state = {"A": "suppressed"}

    async def story(sender: Sender) -> None:
        await sender.send([an_alert("A")], NOW)
        ((key, alert),) = first.kept.items()
        assert await sender.suppressed(key, NOW) is True, "without its labels, of all there are"
        assert "filter" not in first.queries[-1]
        sender.learn(key, tuple(sorted(alert["labels"].items())))
        assert await sender.suppressed(key, NOW) is True
        assert 'cluster="north"' in first.queries[-1]["filter"]

    with_sender([first], story, external_labels={"cluster": "north"})


def test_a_firing_alert_counts_as_long_as_it_says(first: Stand) -> None:
    async def story(sender: Sender) -> None:
        await sender.send([an_alert("A", valid_until=NOW + 60), an_alert("B")], NOW)
        ends = {alert["labels"]["alertname"]: alert["endsAt"] for alert in first.kept.values()}
        assert ends == {"A": "2027-01-15T08:01:00.000000Z", "B": "2027-01-15T08:04:00.000000Z"}

    with_sender([first], story)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", None),
        (b"{}", None),
        (b"[" * 100_000, None),
        (b'[{"fingerprint": "aa", "status": {"state": "suppressed"}}]', True),
        (b'[{"fingerprint": "aa", "status": {"state": "active"}}]', False),
        (b'[{"fingerprint": "aa", "status": {"state": "unprocessed"}}]', None),
        (b'[{"fingerprint": "bb", "status": {"state": "suppressed"}}, 5, {"fingerprint": "aa"}]', None),
    ],
)
def test_only_what_it_says_of_this_alert_counts(body: bytes, expected: bool | None) -> None:
    assert read(body, "aa") is expected


def test_long_labels_do_not_make_a_long_address() -> None:
    labels = (("alertname", 'a"\\\n'), *((f"v{n}", "x" * 900) for n in range(9)))
    found = filters(labels)
    assert found[0] == 'alertname="a\\"\\\\\\n"'
    assert 1 < len(found) < 6
    assert sum(map(len, found)) <= LONGEST_QUERY
