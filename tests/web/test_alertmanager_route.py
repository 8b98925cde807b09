"""Where Alertmanager posts to: a machine with the token comes in, and only what is stored is answered 200."""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from fastapi.testclient import TestClient

from store import Store, StoreError
from tests.rules.alertmanager.posts import a_post, an_item
from tests.web.fake_body import FakeBody
from tests.web.seeded import NOW
from tests.web.serving import served
from web import alertmanager_route
from web.app import create_app
from web.body import TryLater

TOKEN = "a token for machines"
PATH = "/api/v1/alertmanager"
JSON = {"content-type": "application/json"}
LET_IN = JSON | {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def guarded(body: FakeBody, read_store: Store) -> Iterator[TestClient]:
    app = create_app(body, read_store, TOKEN, ["trimtab.example"], clock=lambda: NOW)
    with TestClient(app, base_url="http://trimtab.example:9470") as client:
        yield client


def test_a_machine_with_the_token_posts_as_alertmanager_does(guarded: TestClient, body: FakeBody) -> None:
    # Without Origin, Sec-Fetch-Site or cookie, and with Go's user agent.
    answer = guarded.post(
        PATH, content=a_post(an_item(), an_item("B")), headers=LET_IN | {"user-agent": "Alertmanager/0.25.0"}
    )
    assert answer.status_code == 200
    assert answer.json() == {"taken": 2, "new": 2, "resolved": 0, "own": 0, "left_out": 0}
    assert body.orders == [("alertmanager", 2)]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (JSON, 401),
        (JSON | {"authorization": "Bearer wrong"}, 401),
        (JSON | {"authorization": f"Basic {TOKEN}"}, 401),
        ({"authorization": f"Bearer {TOKEN}", "content-type": "text/plain"}, 415),
        (LET_IN | {"host": "evil.example"}, 400),
        (LET_IN | {"origin": "http://evil.example"}, 403),
    ],
)
def test_others_do_not(guarded: TestClient, body: FakeBody, headers: dict[str, str], status: int) -> None:
    assert guarded.post(PATH, content=a_post(an_item()), headers=headers).status_code == status
    assert body.orders == []


def test_a_body_may_be_as_large_as_alertmanagers_are_and_no_larger(
    guarded: TestClient, body: FakeBody
) -> None:
    large = a_post(*[an_item(f"A{n}") for n in range(900)])
    assert 200_000 < len(large) < 1024 * 1024
    assert guarded.post(PATH, content=large, headers=LET_IN).status_code == 200
    for way in (b"x" * 5_000_000, iter([b"x" * 1_000_000] * 5)):
        answer = guarded.post(PATH, content=way, headers=LET_IN)
        assert answer.status_code == 413
        assert "over 1048576 bytes" in answer.json()["detail"]
    assert guarded.post("/api/v1/pause", content=large, headers=LET_IN).status_code == 413, (
        "other writes stay small"
    )
    assert body.orders == [("alertmanager", 900)]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"[" * 60_000, b'{"version": "3", "alerts": []}'])
def test_what_makes_no_sense_is_refused_for_good(guarded: TestClient, content: bytes) -> None:
    assert guarded.post(PATH, content=content, headers=LET_IN).status_code == 422


@pytest.mark.parametrize(
    ("broken", "seconds"),
    [(StoreError("the disk is full"), "10"), (TryLater("too many posts", 7.0), "7")],
)
def test_what_was_not_stored_may_come_again(
    guarded: TestClient, body: FakeBody, broken: Exception, seconds: str
) -> None:
    body.broken = broken
    answer = guarded.post(PATH, content=a_post(an_item()), headers=LET_IN)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, seconds)
    assert str(broken) in answer.json()["detail"]


def test_bodies_that_do_not_come_hold_few_places_and_not_for_ever(
    body: FakeBody, read_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alertmanager_route, "READ_SECONDS", 4.0)
    app = create_app(body, read_store, None, clock=lambda: NOW)
    head = f"POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
    with served(app) as url, httpx2.Client(timeout=30) as client:
        assert client.post(url + PATH, content=a_post(an_item()), headers=JSON).status_code == 200
        port = int(url.rpartition(":")[2])
        slow = [socket.create_connection(("127.0.0.1", port)) for _ in range(alertmanager_route.AT_ONCE + 1)]
        try:
            for connection in slow:
                connection.settimeout(30)
                connection.sendall(head.encode() + b"{")
            # The one that is told to come again tells that all the others hold their places.
            refused, *_ = select.select(slow, [], [], 30)[0]
            assert b" 503 " in refused.recv(100)
            assert client.post(url + PATH, content=a_post(an_item()), headers=JSON).status_code == 503
            assert all(b" 408 " in connection.recv(100) for connection in slow if connection is not refused)
        finally:
            for connection in slow:
                connection.close()
        assert client.post(url + PATH, content=a_post(an_item()), headers=JSON).status_code == 200


def test_a_flood_of_posts_is_answered_and_keeps_nothing(body: FakeBody, read_store: Store) -> None:
    app = create_app(body, read_store, None, clock=lambda: NOW)

    async def flood(url: str) -> list[int]:
        limits = httpx2.Limits(max_connections=40)
        async with httpx2.AsyncClient(limits=limits, timeout=60.0) as client:

            async def post() -> int:
                answer: Any = await client.post(url + PATH, content=a_post(an_item()), headers=JSON)
                return int(answer.status_code)

            return await asyncio.gather(*(post() for _ in range(1000)))

    with served(app) as url:
        statuses = asyncio.run(flood(url))
    assert set(statuses) <= {200, 503}
    assert statuses.count(200) == len(body.orders)
    assert statuses.count(200) > 50
