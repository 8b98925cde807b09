"""The port's contract, held by the plugin behind its HTTP side."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from trimtab_plugin.control import Controller

from daemon.engine.hot import HotEngine
from tests.change.engine_contract import EngineContract, Laboratory
from tests.engine_plugin.fake_engine import FakeClient, FakeScheduler, Server
from tests.engine_plugin.test_ring import finished, output


class TestPlugin(EngineContract):
    """Fake scheduler, real everything else; time passes for real, so the leases are short."""

    @pytest.fixture(autouse=True)
    def _surroundings(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.token_file = tmp_path / "token"
        self.token_file.write_text("a-secret")
        monkeypatch.setattr("trimtab_plugin.http.engine_version", lambda: "0.32.0")

    def laboratory(self) -> AbstractAsyncContextManager[Laboratory]:
        return self._laboratory()

    @asynccontextmanager
    async def _laboratory(self) -> AsyncIterator[Laboratory]:
        server = Server(FakeClient(Controller(FakeScheduler())), str(self.token_file))

        async def serve() -> None:
            for _ in range(5):
                now = time.time()
                server.ring.record(output(now, first=[0.5]))
                server.ring.record(output(now + 1e-3, gaps=[1e-3] * 16, done=[finished(0.501, 1e-3)]))
            await asyncio.sleep(2e-3)

        transport = httpx2.ASGITransport(app=server.app)
        async with HotEngine("http://engine", token="a-secret", transport=transport) as hot:
            yield Laboratory(hot, asyncio.sleep, serve, lease=0.5)
