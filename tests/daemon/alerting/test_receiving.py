"""What Alertmanager's webhook brings to a living daemon: handed over once, own alerts not at all, floods in part."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select
from structlog.testing import capture_logs

from collectors.sample import Labels
from daemon.alerting import receiving
from daemon.alerting.receiving import ALERTS_PER_POST, BURST, POSTS_PER_SECOND, Receiving
from daemon.alerting.sending import page_url
from daemon.config import WebSection
from rules.alertmanager.sender import Sender
from rules.alertmanager.webhook import Receipt, receive
from store import Store, StoreError, open_store
from store.alert_models import ReceivedAlert
from tests.daemon.engine_stand import EngineStand
from tests.daemon.living import config_for, running
from tests.rules.alertmanager.alerts import NOW, an_alert
from tests.rules.alertmanager.posts import a_post, an_item
from web.body import Senseless, TryLater

ENGINE = "http://tuned:8000"


class Sink:
    """Remembers what it was handed."""

    def __init__(self) -> None:
        self.fired: list[str] = []
        self.over: list[str] = []

    def received(self, labels: Labels, fingerprint: str, starts_at: float) -> None:
        assert len(fingerprint) == 16 and starts_at > 0
        self.fired.append(dict(labels)["alertname"])

    def resolved(self, fingerprint: str) -> None:
        self.over.append(fingerprint)


class Clock:
    """Unix seconds that a test sets."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{tmp_path}/trimtab.db")
    yield opened
    opened.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def taking(store: Store, clock: Clock, sender: Sender | None = None) -> tuple[Receiving, Sink]:
    receiving, sink = Receiving(store, ENGINE, sender or Sender(()), WebSection(), clock), Sink()
    receiving.sinks.append(sink)
    return receiving, sink


def post(taken: Receiving, body: bytes) -> dict[str, Any]:
    return asyncio.run(taken.take(body))


def test_a_new_alert_is_handed_over_once_and_its_end_too(store: Store, clock: Clock) -> None:
    taken, sink = taking(store, clock)
    assert post(taken, a_post(an_item("A"))) == {"taken": 1, "new": 1, "resolved": 0, "own": 0, "left_out": 0}
    for _ in range(3):
        assert post(taken, a_post(an_item("A")))["new"] == 0
    for expected in (1, 0, 0):
        assert post(taken, a_post(an_item("A", status="resolved")))["resolved"] == expected
    assert (sink.fired, sink.over) == (["A"], [str(an_item("A")["fingerprint"])])


def test_an_alert_that_we_sent_ourselves_starts_nothing_again(store: Store, clock: Clock) -> None:
    sender = Sender((), {"cluster": "north"})
    own = an_alert("A")
    sender.put([own], NOW)
    labels = {**dict(own.labels), "cluster": "north"}
    taken, sink = taking(store, clock, sender)
    item = an_item(labels=labels, fingerprint=None)
    assert post(taken, a_post(item))["own"] == 1
    assert sink.fired == []


def test_so_does_one_that_an_earlier_process_of_ours_sent(store: Store, clock: Clock) -> None:
    taken, sink = taking(store, clock)
    assert post(taken, a_post(an_item("A", generatorURL=page_url(WebSection()))))["own"] == 1
    assert sink.fired == []


def test_what_a_crash_may_have_cost_its_run_is_handed_over_again(store: Store, clock: Clock) -> None:
    before, _ = taking(store, clock)
    post(before, a_post(an_item("A"), an_item("B", status="resolved")))
    clock.now += 60
    after, sink = taking(store, clock)
    asyncio.run(after.tick(clock.now))
    asyncio.run(after.tick(clock.now))
    assert sink.fired == ["A"]
    clock.now += receiving.AGAIN_SECONDS
    later, sink = taking(store, clock)
    asyncio.run(later.tick(clock.now))
    assert sink.fired == []


def test_nothing_is_handed_over_that_is_not_stored(store: Store, clock: Clock) -> None:
    taken, sink = taking(store, clock)
    with store.session(), pytest.raises(StoreError):
        post(taken, a_post(an_item("A")))
    with pytest.raises(Senseless):
        post(taken, b"{}")
    assert sink.fired == []
    assert post(taken, a_post(an_item("A")))["new"] == 1


def test_ten_thousand_posts_at_once_are_refused_but_for_a_part(store: Store, clock: Clock) -> None:
    taken, sink = taking(store, clock)
    refused = 0
    for n in range(10_000):
        clock.now += 0.001
        try:
            post(taken, a_post(an_item(f"A{n}")))
        except TryLater as error:
            refused += 1
            assert error.seconds > 0
    expected = (BURST + 10 * POSTS_PER_SECOND) / (1 + 1 / ALERTS_PER_POST)
    assert len(sink.fired) == 10_000 - refused == pytest.approx(expected, abs=2)
    with store.reading() as session:
        assert session.scalar(select(func.count()).select_from(ReceivedAlert)) == len(sink.fired)
    clock.now += 60
    post(taken, a_post(an_item("later")))
    assert sink.fired[-1] == "later"


def test_large_posts_cost_as_much_as_they_bring(store: Store, clock: Clock) -> None:
    taken, sink = taking(store, clock)
    with capture_logs() as lines, pytest.raises(TryLater):
        for n in range(10):
            post(taken, a_post(*(an_item(f"A{n}-{k}") for k in range(400))))
    assert BURST / (1 + 400 / ALERTS_PER_POST) <= len(sink.fired) / 400 <= 6
    assert len(lines) == len(sink.fired) / 400


def test_large_senseless_posts_are_refused_too(store: Store, clock: Clock) -> None:
    taken, _ = taking(store, clock)
    with pytest.raises(TryLater):
        for _ in range(5):
            with pytest.raises(Senseless):
                post(taken, b"[" * 1_000_000)


def test_a_large_post_is_stored_beside_the_loop(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    went_on = threading.Event()

    def slow(body: bytes, kept: Store, engine: str, now: float) -> Receipt:
        assert went_on.wait(10), "the loop stood still"
        return receive(body, kept, engine, now)

    monkeypatch.setattr(receiving, "receive", slow)
    taken, sink = taking(store, clock)

    async def story() -> None:
        taking_it = asyncio.create_task(taken.take(a_post(*(an_item(f"A{k}") for k in range(200)))))
        await asyncio.sleep(0)
        went_on.set()
        await taking_it

    asyncio.run(story())
    assert len(sink.fired) == 200


@pytest.mark.usefixtures("quick")
def test_a_living_daemon_stores_a_post_and_hands_it_over(tmp_path: Path, engine: EngineStand) -> None:
    async def story() -> None:
        config = config_for(tmp_path, engine)
        async with running(config) as one:
            sink = Sink()
            one.daemon.receiving.sinks.append(sink)
            for _ in range(2):
                answer = await one.http.post(
                    "/api/v1/alertmanager",
                    content=a_post(an_item("A")),
                    headers={"content-type": "application/json"},
                )
                assert answer.status_code == 200
            assert sink.fired == ["A"]
            page = await one.http.get("/metrics")
            assert page.status_code == 200
        reopened = open_store(config.store_url)
        with reopened.reading() as session:
            assert session.scalars(select(ReceivedAlert.status)).all() == ["firing"]
        reopened.close()

    asyncio.run(story())
