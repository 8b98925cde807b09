"""A fake engine behind the plugin's real HTTP side, asked raw or by the daemon's own client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import httpx2
from trimtab_plugin.control import Controller

from daemon.engine.hot import HotEngine
from tests.engine_plugin.fake_engine import FakeClient, FakeScheduler, Server

TOKEN = "a-secret"
HEADERS = {"X-Trimtab-Token": TOKEN}
GOOD = {"values": {"batch_max_tokens": 256}, "if_epoch": 0, "lease_seconds": None}


class Engine:
    """A server in front of one fake engine process."""

    def __init__(self, token_file: str | None, *, host: str | None = "127.0.0.1", **client: Any) -> None:
        self.scheduler = FakeScheduler()
        self.controller = Controller(self.scheduler, name="x.Scheduler@0")
        self.client = FakeClient(self.controller, **client)
        self.server = Server(self.client, token_file, host=host)

    def hot(self, token: str | None = TOKEN) -> HotEngine:
        transport = httpx2.ASGITransport(app=self.server.app)
        return HotEngine("http://engine:8000", token=token, transport=transport)

    def ask(
        self, method: str, path: str, *, headers: dict[str, str] | None = None, **more: Any
    ) -> httpx2.Response:
        async def go() -> httpx2.Response:
            async with self.server.client(HEADERS if headers is None else headers) as client:
                return await client.request(method, path, **more)

        return asyncio.run(go())

    @property
    def untouched(self) -> bool:
        return (
            self.controller.call({"op": "state"})["epoch"] == 0
            and self.scheduler.max_num_scheduled_tokens == 2048
        )


def with_client(engine: Engine, talk: Callable[[HotEngine], Coroutine[Any, Any, Any]]) -> Any:
    async def go() -> Any:
        async with engine.hot() as hot:
            return await talk(hot)

    return asyncio.run(go())
