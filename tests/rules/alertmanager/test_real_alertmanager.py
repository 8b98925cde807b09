"""Against Debian's Alertmanager: alerts arrive, end, are held back, and outlive its restart."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rules.alert import Alert
from rules.alertmanager.payload import Posted
from rules.alertmanager.queue import CAPACITY
from rules.alertmanager.sender import Sender
from rules.alertmanager.target import Target
from rules.delivery.backoff import Backoff
from rules.delivery.http import Access, Wire
from tests.real.engine import free_port
from tests.rules.alertmanager.alerts import an_alert
from tests.rules.alertmanager.real_alertmanager import RealAlertmanager, standing, until

pytestmark = pytest.mark.debian("alertmanager")

EXTERNAL = {"cluster": "north"}


@pytest.fixture
def real(tmp_path: Path) -> Iterator[RealAlertmanager]:
    instance = RealAlertmanager(tmp_path / "am")
    with standing(instance):
        yield instance


def now_firing(name: str, **more: Any) -> Alert:
    now = time.time()
    return an_alert(name, active_at=now - 90, fired_at=now - 60, valid_until=now + 60, **more)


def with_sender(story: Callable[[Sender], Coroutine[Any, Any, None]], *instances: RealAlertmanager) -> None:
    async def live() -> None:
        def target(number: int, one: RealAlertmanager) -> Target:
            quick = Backoff("am", first=0.05, longest=0.2)
            return Target(f"am{number}", one.url, Wire(Access()), time.time, backoff=quick)

        targets = [target(number, one) for number, one in enumerate(instances)]
        sender = Sender(targets, EXTERNAL, "http://trimtab:9470/alerts")
        try:
            await story(sender)
        finally:
            await sender.close()

    asyncio.run(live())


def test_alerts_arrive_as_they_are_and_end_when_they_end(real: RealAlertmanager) -> None:
    first = now_firing("A", labels={"npu": "3", "zh": "温度\n高", "empty": ""})

    async def story(sender: Sender) -> None:
        await sender.send([first, now_firing("B")], time.time())
        kept = real.alerts()["A"]
        assert kept["labels"] == {
            "alertname": "A",
            "severity": "warning",
            "npu": "3",
            "zh": "温度\N{REPLACEMENT CHARACTER}高",
            "cluster": "north",
        }
        assert kept["generatorURL"] == "http://trimtab:9470/alerts"
        assert sender.is_ours(kept["fingerprint"]), "its fingerprint is what we think it is"
        over = replace(first, state="resolved", resolved_at=time.time())
        await sender.send([over], time.time())
        assert [target.health.error for target in sender.targets] == [None]

    with_sender(story, real)
    until(lambda: set(real.alerts()) == {"B"})


def test_a_silenced_alert_is_suppressed_until_the_silence_ends(real: RealAlertmanager) -> None:
    async def story(sender: Sender) -> None:
        alert = now_firing('Hot "card"\\', labels={"npu": "3"})
        silence = real.silence('Hot "card"\\')
        # Never sent before: it is sent now, and then asked about.
        sender.put([alert], time.time())
        assert await sender.suppressed(alert.fingerprint, time.time()) is True
        real.end_silence(silence)
        assert await sender.suppressed(alert.fingerprint, time.time()) is False

    with_sender(story, real)


def test_an_inhibited_alert_is_suppressed(real: RealAlertmanager) -> None:
    async def story(sender: Sender) -> None:
        alert = now_firing("Inhibited")
        await sender.send([alert], time.time())
        assert await sender.suppressed(alert.fingerprint, time.time()) is False
        real.post("NodeDown")
        assert await sender.suppressed(alert.fingerprint, time.time()) is True

    with_sender(story, real)


def test_one_bad_alert_costs_the_others_nothing(real: RealAlertmanager) -> None:
    now = time.time()
    bad = Posted((("alertname", "bad"), ("no-name", "x")), (), now - 60, now + 60, True)
    malformed = Posted((("alertname", "odd"),), (), now - 60, now + 60, True, "::no uri")

    async def story(sender: Sender) -> None:
        sender.put([now_firing(f"A{n}") for n in range(40)], time.time())
        (target,) = sender.targets
        target.put([bad, malformed])
        await target.send_due()
        assert (target.health.dropped, target.health.queued, target.health.error) == (2, 0, None)

    with_sender(story, real)
    assert set(real.alerts()) == {f"A{n}" for n in range(40)}


def test_a_full_queue_arrives_whole(real: RealAlertmanager, say: Callable[[str], None]) -> None:
    alerts = [now_firing(f"A{n}", labels={"npu": str(n % 8)}) for n in range(CAPACITY)]

    async def story(sender: Sender) -> None:
        begun = time.perf_counter()
        sender.put(alerts, time.time())
        queued = time.perf_counter()
        (target,) = sender.targets
        await target.send_due()
        took = time.perf_counter() - queued
        say(f"{CAPACITY} alerts: queued in {queued - begun:.1f} s, sent in {took:.1f} s")
        assert (target.health.sent, target.health.dropped, target.health.failed) == (CAPACITY, 0, 0)

    with_sender(story, real)
    assert len(real.alerts()) == CAPACITY


def test_its_restart_is_outlived(real: RealAlertmanager) -> None:
    async def story(sender: Sender) -> None:
        alert = now_firing("A")
        await sender.send([alert], time.time())
        real.stop()
        await sender.send([alert], time.time())
        (target,) = sender.targets
        assert target.health.error is not None and target.health.queued == 1
        assert await sender.suppressed(alert.fingerprint, time.time()) is None, "nobody answers"
        await asyncio.to_thread(real.start)
        assert real.alerts() == {}, "it keeps no alerts over a restart"
        deadline = time.monotonic() + 30
        while target.health.queued and time.monotonic() < deadline:
            await target.send_due()
            await asyncio.sleep(0.02)
        assert set(real.alerts()) == {"A"}
        assert target.health.error is None

    with_sender(story, real)


def test_both_of_a_pair_get_it_and_a_silence_on_one_counts(tmp_path: Path) -> None:
    meeting = free_port()
    first = RealAlertmanager(tmp_path / "one", cluster=meeting)
    second = RealAlertmanager(tmp_path / "two", cluster=free_port(), peer=meeting)

    async def story(sender: Sender) -> None:
        alert = now_firing("A")
        await sender.send([alert], time.time())
        assert set(first.alerts()) == set(second.alerts()) == {"A"}
        first.silence("A")
        assert await sender.suppressed(alert.fingerprint, time.time()) is True
        # And the other learns of it by gossip.
        await asyncio.to_thread(until, lambda: second.alerts()["A"]["status"]["state"] == "suppressed")

    with standing(first, second):
        with_sender(story, first, second)
