"""A real vLLM records itself through its profile endpoints, and goes on serving."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from daemon.profile.capture import Bounds, record
from daemon.profile.engine_endpoints import EngineProfiler
from tests.real.engine import RealEngine, Traffic, warm_up

pytestmark = pytest.mark.real

PROFILES = "profiles"
"""Where the server writes its own profiles, in its folder."""
RECORDING = {
    "profiler": "torch",
    "torch_profiler_dir": f"./{PROFILES}",
    "torch_profiler_with_stack": False,  # with stacks two seconds take minutes to write
    "ignore_frontend": True,
}


@pytest.fixture
def recordable() -> Iterator[RealEngine]:
    """A server of its own, so that what is timed on the other one was never recorded."""
    with RealEngine("0.32.0", ["--max-num-seqs", "32", "--profiler-config", json.dumps(RECORDING)]) as engine:
        asyncio.run(warm_up(engine))
        yield engine


def test_a_real_server_records_itself_and_no_request_fails(recordable: RealEngine, tmp_path: Path) -> None:
    async def scene() -> None:
        async with httpx2.AsyncClient(timeout=None, trust_env=False) as client:
            traffic = Traffic(recordable, 2.0, seed=5)
            sending = asyncio.create_task(traffic.run(60.0))
            profiler = EngineProfiler(client, recordable.url, recordable.folder / PROFILES)
            bounds = Bounds(seconds=1.0, finish_seconds=120.0, quota_bytes=512 * 1024**2)
            taken = await record(profiler, tmp_path / "captures", bounds)
            traffic.end()
            report = await sending
        assert taken.size_bytes > 1000
        assert all(path.parent == recordable.folder / PROFILES for path in taken.folders)
        assert report.sent > 0
        assert report.failures == []

    asyncio.run(scene())
