"""One robot over real HTTP: told of changes only, in few messages, and its address is shown nowhere."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Coroutine, Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from rules.delivery.http import Access, Wire
from rules.webhooks.formats import FORMATS, FormatName
from rules.webhooks.message import Message
from rules.webhooks.robot import MESSAGES_PER_MINUTE, Robot, secrets_of
from tests.collectors.page_server import PageServer, page_server
from tests.rules.alertmanager.alerts import NOW, an_alert

OK = b'{"errcode":0,"errmsg":"ok"}'
KEY = "0123456789abcdef-robot-key"


class Clock:
    """Unix seconds that a test sets."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def server() -> Iterator[PageServer]:
    with page_server(PageServer(page=OK, content_type="application/json")) as served:
        yield served


def with_robot(
    url: str,
    clock: Clock,
    story: Callable[[Robot], Coroutine[Any, Any, None]],
    form: FormatName = "dingtalk",
    **options: Any,
) -> Robot:
    address = f"{url}/robot/send?access_token={KEY}"

    async def live() -> Robot:
        secret = options.get("secret")
        wire = Wire(Access(timeout=5.0), secrets=(*secrets_of(address), *([secret] if secret else [])))
        robot = Robot("ops", address, FORMATS[form], wire, clock, **options)
        try:
            await story(robot)
        finally:
            await robot.close()
        return robot

    return asyncio.run(live())


def texts(server: PageServer) -> list[str]:
    return [json.loads(body)["markdown"]["text"] for body in server.posted]


def test_all_alerts_of_a_tick_are_one_message_and_repeats_are_none(server: PageServer, clock: Clock) -> None:
    async def story(robot: Robot) -> None:
        for _ in range(5):
            robot.put([an_alert("A"), an_alert("B")], clock.now)
            await robot.send_due()
            clock.now += 60

    robot = with_robot(server.url, clock, story)
    assert len(server.posted) == 1
    assert "FIRING A" in texts(server)[0] and "FIRING B" in texts(server)[0]
    assert (robot.health.sent, robot.health.queued) == (2, 0)


def test_the_end_is_told_once_and_a_new_firing_again(server: PageServer, clock: Clock) -> None:
    async def story(robot: Robot) -> None:
        over = an_alert("A", state="resolved", resolved_at=NOW + 1)
        for alert in (an_alert("A"), over, over, an_alert("A", fired_at=NOW + 9)):
            robot.put([alert], clock.now)
            await robot.send_due()

    with_robot(server.url, clock, story)
    assert ["RESOLVED" in text for text in texts(server)] == [False, True, False]


def test_what_an_earlier_process_told_to_be_over_is_not_told_again(server: PageServer, clock: Clock) -> None:
    async def story(robot: Robot) -> None:
        robot.put([an_alert("A", state="resolved", resolved_at=NOW - 1)], clock.now)
        robot.put([an_alert("B", state="resolved", resolved_at=NOW + 1)], clock.now)
        await robot.send_due()

    with_robot(server.url, clock, story)
    assert len(server.posted) == 1
    assert "RESOLVED B" in texts(server)[0] and "RESOLVED A" not in texts(server)[0]


def test_what_is_not_bad_enough_is_not_told(server: PageServer, clock: Clock) -> None:
    async def story(robot: Robot) -> None:
        for severity in ("info", "warning", "critical", "page"):
            robot.put([an_alert(severity, labels={"severity": severity})], clock.now)
        await robot.send_due()

    with_robot(server.url, clock, story, least_severity="critical")
    assert "1 firing (critical)" in texts(server)[0]


def test_over_the_limit_it_holds_back_and_merges(server: PageServer, clock: Clock) -> None:
    async def story(robot: Robot) -> None:
        for n in range(200):
            robot.put([an_alert(f"A{n}")], clock.now)
            await robot.send_due()
            clock.now += 0.1
        assert len(server.posted) == MESSAGES_PER_MINUTE
        assert robot.health.queued == 180
        clock.now = NOW + 62
        await robot.send_due()

    robot = with_robot(server.url, clock, story)
    assert len(server.posted) == MESSAGES_PER_MINUTE + 1
    assert "180 firing" in texts(server)[-1]
    assert (robot.health.sent, robot.health.dropped, robot.health.queued) == (200, 0, 0)


def test_a_plain_webhook_loses_none_of_many(server: PageServer, clock: Clock) -> None:
    async def story(robot: Robot) -> None:
        robot.put([an_alert(f"A{n}") for n in range(150)], clock.now)
        await robot.send_due()

    with_robot(server.url, clock, story, form="plain")
    assert [len(json.loads(body)["alerts"]) for body in server.posted] == [64, 64, 22]


def test_an_error_in_an_answer_of_200_is_a_failure_that_is_retried(server: PageServer, clock: Clock) -> None:
    server.page = b'{"errcode":130101,"errmsg":"send too fast"}'

    async def story(robot: Robot) -> None:
        robot.put([an_alert("A")], clock.now)
        await robot.send_due()
        await robot.send_due()
        assert len(server.posted) == 1, "not before the pause is over"
        assert robot.health.error == "the robot refuses: code 130101 send too fast"
        server.page = OK
        clock.now += 2
        await robot.send_due()

    robot = with_robot(server.url, clock, story)
    assert (robot.health.error, robot.health.queued, robot.health.failed) == (None, 0, 1)


def test_what_could_not_be_told_for_an_hour_is_no_news(server: PageServer, clock: Clock) -> None:
    server.status = 500

    async def story(robot: Robot) -> None:
        robot.put([an_alert("A")], clock.now)
        await robot.send_due()
        clock.now += 3601
        await robot.send_due()

    robot = with_robot(server.url, clock, story)
    assert (robot.health.queued, robot.health.dropped) == (0, 1)


def test_words_to_people_arrive_or_it_is_said_why_not(server: PageServer, clock: Clock) -> None:
    async def story(robot: Robot) -> None:
        assert await robot.notify("card 3 is hot", clock.now) is None
        server.status = 503
        failed = await robot.notify("card 4 is hot", clock.now)
        assert failed is not None and "HTTP 503" in failed
        server.status = 200
        clock.now += 2
        robot.put([an_alert("A")], clock.now)
        await robot.send_due()

    with_robot(server.url, clock, story)
    assert "card 3 is hot" in texts(server)[0]
    assert "card 4 is hot" in texts(server)[-1] and "FIRING A" in texts(server)[-1]


def test_the_signature_arrives_as_it_was_made(server: PageServer, clock: Clock) -> None:
    async def story(robot: Robot) -> None:
        for n in range(19):
            clock.now = NOW + n
            await robot.notify(f"note {n}", clock.now)

    with_robot(server.url, clock, story, secret="SECabc")
    for n, (path, _) in enumerate(server.asked):
        query = parse_qs(urlsplit(path).query, strict_parsing=True)
        expected = FORMATS["dingtalk"].body(Message(), NOW + n, "SECabc").params
        assert query == {
            "access_token": [KEY],
            "timestamp": [expected["timestamp"]],
            "sign": [expected["sign"]],
        }


def test_neither_the_address_nor_the_secret_is_shown(
    server: PageServer, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    server.page = json.dumps({"errcode": 1, "errmsg": f"bad token {KEY} or SECabcdef"}).encode()
    said: list[str | None] = []

    async def story(robot: Robot) -> None:
        said.append(await robot.notify("x", clock.now))

    for url in (server.url, "http://127.0.0.1:1", "nonsense"):
        clock.now += 700
        robot = with_robot(url, clock, story, secret="SECabcdef")
        assert robot.health.error
        said.append(robot.health.error)
    assert "bad token *** or ***" in str(said)
    for secret in (KEY, "SECabcdef"):
        assert secret not in str(said) + caplog.text
