"""Programs and servers that a recording can meet, good and bad."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

from tests.prepare import ROOT


def script(folder: Path, body: str) -> str:
    """An executable shell script."""
    path = folder / "msprof"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def simulated(folder: Path) -> str:
    """The simulator's msprof."""
    return script(folder, f'cd {ROOT} && exec {sys.executable} -m sim.msprof "$@"')


@dataclass
class Engine:
    """An engine whose profiler writes a file of `size` bytes into `results`.

    It takes `start_seconds` to start; with `never_stops` it writes and does not answer.
    """

    results: Path
    size: int = 1000
    status: int = 200
    grows: bool = False
    start_seconds: float = 0.0
    never_stops: bool = False
    called: list[str] = field(default_factory=list)
    times: dict[str, float] = field(default_factory=dict)
    asked: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, request: httpx2.Request) -> httpx2.Response:
        self.called.append(request.url.path)
        self.times[request.url.path] = asyncio.get_running_loop().time()
        self.asked.set()
        if self.status != 200:
            return httpx2.Response(self.status, text="no")
        if request.url.path == "/start_profile":
            await asyncio.sleep(self.start_seconds)
        if request.url.path == "/start_profile" and self.grows:
            (self.results / "growing").write_bytes(b"x" * self.size)
        if request.url.path == "/stop_profile":
            folder = self.results / "rank0_ascend_pt"
            folder.mkdir()
            (folder / "trace.json").write_bytes(b"x" * self.size)
            if self.never_stops:
                await asyncio.Event().wait()
        return httpx2.Response(200)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[httpx2.AsyncClient]:
        async with httpx2.AsyncClient(transport=httpx2.MockTransport(self.answer), timeout=None) as client:
            yield client
