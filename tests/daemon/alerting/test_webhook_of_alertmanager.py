"""Debian's Alertmanager posts to a living daemon: with the token, again and again, and a run is asked for once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from collectors.sample import Labels
from store import StoreError
from tests.daemon.engine_stand import EngineStand
from tests.daemon.living import Running, config_for, running
from tests.rules.alertmanager.alerts import an_alert
from tests.rules.alertmanager.real_alertmanager import RealAlertmanager
from web.body import TryLater

pytestmark = [pytest.mark.debian("alertmanager"), pytest.mark.usefixtures("quick")]

TOKEN = "web-token-0123456789"


class Sink:
    """Remembers what it was handed."""

    def __init__(self) -> None:
        self.fired: list[tuple[str, str, float]] = []
        self.over: list[str] = []

    def received(self, labels: Labels, fingerprint: str, starts_at: float) -> None:
        self.fired.append((dict(labels)["alertname"], fingerprint, starts_at))

    def resolved(self, fingerprint: str) -> None:
        self.over.append(fingerprint)


async def until(condition: Callable[[], Any], real: RealAlertmanager) -> None:
    deadline = time.monotonic() + 60.0
    while not condition():
        assert time.monotonic() < deadline, f"it did not come to that: {real.log()[-2000:]}"
        await asyncio.sleep(0.05)


def listening(one: Running, failures: list[Exception] | None = None) -> tuple[Sink, list[dict[str, Any]]]:
    """A sink of the daemon's, and what came of each post; the first ones meet `failures`, which are used up."""
    posts: list[dict[str, Any]] = []
    sink, take = Sink(), one.daemon.receiving.take
    one.daemon.receiving.sinks.append(sink)

    async def counted(body: bytes) -> dict[str, Any]:
        if failures:
            raise failures.pop(0)
        posts.append(await take(body))
        return posts[-1]

    one.daemon.receiving.take = counted  # type: ignore[method-assign]
    return sink, posts


def webhook(url: str, token: str) -> dict[str, Any]:
    return {
        "url": f"{url}/api/v1/alertmanager",
        "max_alerts": 500,
        "http_config": {"authorization": {"credentials": token}},
    }


def test_an_alert_of_others_asks_for_one_run_however_often_it_is_repeated(
    tmp_path: Path, engine: EngineStand
) -> None:
    token = tmp_path / "web-token"
    token.write_text(TOKEN)

    async def story() -> None:
        async with running(config_for(tmp_path, engine, web={"token_file": str(token)})) as one:
            sink, posts = listening(one)
            real = RealAlertmanager(tmp_path / "am", webhook(str(one.http.base_url).rstrip("/"), TOKEN))
            await asyncio.to_thread(real.start)
            try:
                await asyncio.to_thread(real.post, "NodeDown")
                await until(lambda: len(posts) >= 4, real)
                assert [name for name, _, _ in sink.fired] == ["NodeDown"]
                ((_, fingerprint, _),) = sink.fired
                assert [came["new"] for came in posts] == [1, *[0] * (len(posts) - 1)]
                # Its fingerprint is that of the API, so that a silence on it can be asked for.
                assert real.alerts()["NodeDown"]["fingerprint"] == fingerprint
                await asyncio.to_thread(real.post, "NodeDown", over=True)
                await until(lambda: sink.over == [fingerprint], real)
            finally:
                await asyncio.to_thread(real.stop)

    asyncio.run(story())


def test_while_nothing_can_be_stored_it_tries_again(tmp_path: Path, engine: EngineStand) -> None:
    async def story() -> None:
        async with running(config_for(tmp_path, engine)) as one:
            failures: list[Exception] = [StoreError("the disk is full"), TryLater("too many posts", 1.0)]
            sink, posts = listening(one, failures)
            url = f"{str(one.http.base_url).rstrip('/')}/api/v1/alertmanager"
            real = RealAlertmanager(tmp_path / "am", {"url": url})
            await asyncio.to_thread(real.start)
            try:
                await asyncio.to_thread(real.post, "NodeDown")
                await until(lambda: posts, real)
                assert failures == []
                assert [name for name, _, _ in sink.fired] == ["NodeDown"]
            finally:
                await asyncio.to_thread(real.stop)

    asyncio.run(story())


def test_an_alert_of_our_own_comes_back_and_starts_nothing(tmp_path: Path, engine: EngineStand) -> None:
    token = tmp_path / "web-token"
    token.write_text(TOKEN)
    # The daemon must know the Alertmanager's address before it lives, and the Alertmanager the daemon's.
    real = RealAlertmanager(tmp_path / "am")

    async def story() -> None:
        config = config_for(
            tmp_path,
            engine,
            web={"token_file": str(token)},
            alertmanagers=[{"url": real.url}],
            rules={"external_labels": {"cluster": "north"}},
        )
        async with running(config) as one:
            sink, posts = listening(one)
            real.configure(webhook(str(one.http.base_url).rstrip("/"), TOKEN))
            await asyncio.to_thread(real.start)
            try:
                now = time.time()
                alert = an_alert("KvFull", active_at=now - 90, fired_at=now - 60, valid_until=now + 60)
                one.daemon.sending.take([alert], now)
                await until(lambda: len(posts) >= 2, real)
                assert posts[0]["own"] == 1
                assert sink.fired == []
                assert await one.daemon.sending.suppressed(alert.fingerprint, now) is False
                await asyncio.to_thread(real.silence, "KvFull")
                assert await one.daemon.sending.suppressed(alert.fingerprint, now) is True
            finally:
                await asyncio.to_thread(real.stop)

    asyncio.run(story())


def test_without_the_token_nothing_is_taken(tmp_path: Path, engine: EngineStand) -> None:
    token = tmp_path / "web-token"
    token.write_text(TOKEN)

    async def story() -> None:
        async with running(config_for(tmp_path, engine, web={"token_file": str(token)})) as one:
            sink, posts = listening(one)
            real = RealAlertmanager(tmp_path / "am", webhook(str(one.http.base_url).rstrip("/"), "wrong"))
            await asyncio.to_thread(real.start)
            try:
                await asyncio.to_thread(real.post, "NodeDown")
                await until(lambda: "401" in real.log(), real)
                assert (sink.fired, posts) == ([], [])
            finally:
                await asyncio.to_thread(real.stop)

    asyncio.run(story())
