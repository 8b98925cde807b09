"""The simulated hand and the engine that other tests use keep the contract of `EngineControl`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sim.node import Node
from tests.change.engine_contract import EngineContract, Laboratory
from tests.change.plain_engine import PlainEngine


class TestSimulatedHand(EngineContract):
    @asynccontextmanager
    async def laboratory(self) -> AsyncIterator[Laboratory]:
        node = Node("default", seed=7, start=1_700_000_000.0)

        async def advance(seconds: float) -> None:
            node.advance(node.now + seconds)

        async def serve() -> None:
            while node.completed < 20:
                node.advance(node.now + 1.0)

        yield Laboratory(node.control, advance, serve)


class TestPlainEngine(EngineContract):
    @asynccontextmanager
    async def laboratory(self) -> AsyncIterator[Laboratory]:
        engine = PlainEngine()

        async def advance(seconds: float) -> None:
            engine.now += seconds

        async def serve() -> None:
            engine.finish_requests(20)

        yield Laboratory(engine, advance, serve)
