"""The traffic that real servers get; it needs none of them."""

from __future__ import annotations

import asyncio
import socket
from types import SimpleNamespace
from typing import cast

from tests.real.engine import RealEngine
from tests.real.traffic import Traffic


def test_it_ends_when_it_is_told_to_though_it_cannot_keep_its_pace() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound and not listening: every request is refused at once
        engine = cast(RealEngine, SimpleNamespace(url=f"http://127.0.0.1:{nobody.getsockname()[1]}"))

        async def story() -> None:
            traffic = Traffic(engine, 100_000.0, at_once=2)
            running = asyncio.create_task(traffic.run(3600.0))
            await asyncio.sleep(0)
            traffic.end()
            async with asyncio.timeout(30.0):
                await running

        asyncio.run(story())
