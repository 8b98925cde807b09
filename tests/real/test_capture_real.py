"""A real vLLM records itself through its profile endpoints, and goes on serving."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx2
import pytest

from daemon.profile.capture import Bounds, record
from daemon.profile.engine_endpoints import EngineProfiler
from tests.real.conftest import PROFILES
from tests.real.engine import RealEngine, Traffic

pytestmark = pytest.mark.real


def test_a_real_server_records_itself_and_no_request_fails(engine_0_32: RealEngine, tmp_path: Path) -> None:
    async def scene() -> None:
        async with httpx2.AsyncClient(timeout=None, trust_env=False) as client:
            traffic = Traffic(engine_0_32, 2.0, seed=5)
            sending = asyncio.create_task(traffic.run(60.0))
            profiler = EngineProfiler(client, engine_0_32.url, engine_0_32.folder / PROFILES)
            bounds = Bounds(seconds=1.0, finish_seconds=120.0, quota_bytes=512 * 1024**2)
            taken = await record(profiler, tmp_path / "captures", bounds)
            traffic.end()
            report = await sending
        assert taken.size_bytes > 1000
        assert all(path.parent == engine_0_32.folder / PROFILES for path in taken.folders)
        assert report.sent > 0
        assert report.failures == []

    asyncio.run(scene())
