"""A simulated node behind real HTTP on a free loopback port, with a clock that the test moves."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import uvicorn

from sim.node import Node
from sim.pace import Pace
from sim.server import create_app

START = 1_700_000_000.0
TOKEN = "a-secret"


@dataclass
class Served:
    """The node, its address, and the hands of its clock."""

    node: Node
    url: str
    hand: list[float]

    def advance(self, seconds: float) -> None:
        """Move the clock: the server follows before its next answer and of its own accord."""
        self.hand[0] += seconds


@asynccontextmanager
async def served(
    scenario: str = "default",
    seed: int = 7,
    token: str | None = TOKEN,
    *,
    live: bool = False,
    speed: float = 1.0,
) -> AsyncIterator[Served]:
    """Serve a node until the end of the block; with `live` its clock is the machine's."""
    node = Node(scenario, seed, START)
    hand = [0.0]
    pace = Pace(node, speed=speed) if live else Pace(node, speed=speed, clock=lambda: hand[0])
    config = uvicorn.Config(
        create_app(node, token, pace=pace), log_level="error", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        task = asyncio.create_task(server._serve([listening]))  # without taking over the test's signals
        try:
            yield Served(node, f"http://127.0.0.1:{listening.getsockname()[1]}", hand)
        finally:
            server.should_exit = True
            await task
