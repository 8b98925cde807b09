"""A daemon that lives in the test's own event loop, beside an engine stand, with its page to ask."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, MutableMapping
from pathlib import Path
from typing import Any

import httpx2

from daemon import assembly, credentials
from daemon.canary import canary_control
from daemon.config import Config
from daemon.engine_probe import EngineProbe
from daemon.loops import Daemon
from daemon.web_server import listen, local_url
from tests.daemon.engine_stand import TOKEN, EngineStand

WAIT_SECONDS = 60.0
Said = list[MutableMapping[str, Any]]


def config_for(tmp_path: Path, engine: EngineStand, *, patience: float = 10.0, **more: Any) -> Config:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    values: dict[str, Any] = {
        "mode": "act",
        "engine": {
            "url": engine.url,
            "token_file": str(token),
            "run_dir": str(tmp_path / "run"),
            "timeout_seconds": patience,
        },
        "collect": {
            "vllm": {"interval_seconds": 0.1},
            "npu_smi": {"enabled": False},
            "host": {"enabled": False},
        },
        "web": {"port": 0},
        "store": {"url": f"sqlite:///{tmp_path}/store/trimtab.db"},
    }
    for key, value in more.items():
        values[key] = {**values.get(key, {}), **value} if isinstance(value, dict) else value
    return Config.model_validate(values)


class Running:
    """A daemon and its page."""

    def __init__(self, daemon: Daemon, url: str) -> None:
        self.daemon = daemon
        self.http = httpx2.AsyncClient(base_url=url, trust_env=False, timeout=30)

    async def live(self) -> dict[str, Any]:
        answer = await self.http.get("/api/v1/live")
        assert answer.status_code == 200
        return dict(answer.json())

    async def until(self, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            live = await self.live()
            if condition(live):
                return live
            assert time.monotonic() < deadline, f"it did not come to that: {live}"
            await asyncio.sleep(0.03)


@contextlib.asynccontextmanager
async def running(config: Config) -> AsyncIterator[Running]:
    with contextlib.closing(listen(config.web)) as listening:
        async with assembly.hot_engine(config) as control, canary_control(config) as canary:
            probe = EngineProbe(config, credentials.engine_api_key(config))
            daemon = Daemon(config, control, probe, canary=canary)
            life = asyncio.create_task(daemon.run(listening))
            one = Running(daemon, local_url(listening, ""))
            try:
                yield one
            finally:
                await one.http.aclose()
                daemon.stop.set()
                await asyncio.wait_for(life, WAIT_SECONDS)
                await probe.close()


def source(live: dict[str, Any], name: str) -> dict[str, Any]:
    return next((one for one in live["sources"] if one["name"] == name), {})


def notices(live: dict[str, Any], text: str) -> bool:
    return any(text in notice["text"] for notice in live["notices"])


def times_said(said: Said, text: str) -> int:
    return sum(text in str(line) for line in said)
