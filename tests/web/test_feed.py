"""The heartbeat and the event stream."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import httpx2
import pytest
import uvicorn
from fastapi.sse import ServerSentEvent

from store import Store
from tests.web.fake_body import FakeBody
from tests.web.seeded import NOW, add_pair
from web import feed as feed_module
from web.app import create_app, end_streams
from web.feed import Feed


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(feed_module, "BEAT_SECONDS", 0.01)
    yield


@asynccontextmanager
async def beating(body: FakeBody, store: Store) -> AsyncIterator[Feed]:
    feed = Feed(body, store, lambda: NOW)
    task = asyncio.create_task(feed.run())
    try:
        yield feed
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def take(feed: Feed, count: int) -> list[ServerSentEvent]:
    """Read so many events: the first is the moment's, the others come with beats."""
    events: list[ServerSentEvent] = []
    async for event in feed.events():
        events.append(event)
        if len(events) == count:
            break
    return events


def test_live_comes_at_once_and_with_every_beat(body: FakeBody, store: Store) -> None:
    async def scene() -> list[ServerSentEvent]:
        async with beating(body, store) as feed:
            return await take(feed, 4)

    assert [event.event for event in asyncio.run(scene())] == ["live"] * 4


def test_trials_comes_when_something_is_stored(body: FakeBody, store: Store) -> None:
    async def scene() -> Any:
        async with beating(body, store) as feed:
            seen = 0
            async for event in feed.events():
                seen += 1
                if event.event == "trials":
                    return seen, event.data
                if seen == 3:
                    add_pair(store)
        raise AssertionError("the stream ended")

    seen, data = asyncio.run(scene())
    assert seen > 3
    assert data["campaign"] == 3


def test_closing_ends_the_streams_that_are_open_and_those_to_come(body: FakeBody, store: Store) -> None:
    async def scene() -> list[int]:
        async with beating(body, store) as feed:
            early = 0
            async with asyncio.timeout(5):
                async for _ in feed.events():
                    early += 1
                    if early == 3:
                        feed.close()
                return [early, len([event async for event in feed.events()])]

    early, late = asyncio.run(scene())
    assert (early, late) == (3, 1)


def test_a_daemon_that_stumbles_leaves_everything_unknown_until_it_recovers(
    body: FakeBody, store: Store
) -> None:
    async def scene() -> tuple[Any, Any]:
        async with beating(body, store) as feed:
            body.broken = RuntimeError("gone wrong")
            dark = (await take(feed, 3))[-1].data
            body.broken = None
            return dark, (await take(feed, 3))[-1].data

    dark, light = asyncio.run(scene())
    assert dark == {"now": NOW}
    assert light["mode"] == "act"


def test_an_unreadable_store_does_not_stop_the_heartbeat(body: FakeBody, store: Store) -> None:
    async def scene() -> Any:
        async with beating(body, store) as feed:
            with store.session():
                return (await take(feed, 4))[-1].data

    assert asyncio.run(scene())["mode"] == "act"


def test_the_trend_keeps_a_gap_where_nothing_was_known(body: FakeBody, store: Store) -> None:
    feed = Feed(body, store, lambda: NOW)
    feed.trend.add(1.0, {"latency": {"ttft_p99": 0.5}})
    feed.trend.add(2.0, {"latency": None})
    feed.trend.add(3.0, {})
    columns = feed.trend.as_columns()
    assert columns["times"] == [1.0, 2.0, 3.0]
    assert columns["series"]["ttft_p99"] == [0.5, None, None]


def test_a_client_that_leaves_leaves_no_task_behind_and_the_server_stops_with_streams_open(
    body: FakeBody, store: Store
) -> None:
    app = create_app(body, store, None, clock=lambda: NOW)

    async def scene() -> tuple[list[str], int, int]:
        config = uvicorn.Config(app, port=0, log_level="critical", lifespan="on", ws="none")
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve())
        await until(lambda: server.started)
        port = server.servers[0].sockets[0].getsockname()[1]
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            await client.get("/api/v1/health")
            before = len(asyncio.all_tasks())
            lines: list[str] = []
            async with client.stream("GET", "/api/v1/events") as answer:
                assert answer.headers["content-type"].startswith("text/event-stream")
                async for line in answer.aiter_lines():
                    lines.append(line)
                    if len(lines) > 8:
                        break
            await until(lambda: len(asyncio.all_tasks()) <= before)
            after = len(asyncio.all_tasks())
            async with client.stream("GET", "/api/v1/events") as answer:
                await anext(answer.aiter_lines())
                end_streams(app)
                server.should_exit = True
                await asyncio.wait_for(serving, 5)
        return lines, before, after

    lines, before, after = asyncio.run(scene())
    assert lines[0] == "event: live"
    assert json.loads(lines[1].removeprefix("data: "))["mode"] == "act"
    assert after <= before


async def until(true: Any) -> None:
    """Wait for something that is about to happen, at most five seconds."""
    async with asyncio.timeout(5):
        while not true():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.01)
