"""The hand `process` keeps the contract, with the real guardian and real processes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from change.server import LaunchCommand, ServerError
from daemon.engine.process import ProcessServer
from daemon.guardian.launch_file import LaunchFile
from tests.change.server_contract import ServerContract, Stand
from tests.change.standing_engine import EngineHouse

SERVE = """
import os, sys
from pathlib import Path
from daemon.serve import serve
split = sys.argv.index("--")
run_dir = Path(sys.argv[1])
say = lambda text: print("trimtab:", text, file=sys.stderr, flush=True)
sys.exit(serve(sys.argv[2:split], sys.argv[split + 1 :], os.environ, say, run_dir=run_dir))
"""
IDLE_DAEMON = (sys.executable, "-IS", "-c", "import time; time.sleep(600)")


def begin(house: EngineHouse, run_dir: Path, output: Path) -> subprocess.Popen[bytes]:
    """Start the guardian with `good` as the operator's command."""
    with output.open("wb") as file:
        return subprocess.Popen(
            [sys.executable, "-c", SERVE, str(run_dir), *house.good.argv, "--", *IDLE_DAEMON],
            env=house.environ,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
        )


@asynccontextmanager
async def process_stand(folder: Path) -> AsyncIterator[Stand]:
    house = EngineHouse(folder / "house")
    run_dir = folder / "run"
    run_dir.mkdir()
    parent = begin(house, run_dir, folder / "output")

    async def engines() -> int:
        return len(house.living("engine"))

    async def leftovers() -> int:
        return len(house.living("engine")) + len(house.living("worker"))

    async def next_start() -> LaunchCommand:
        return LaunchFile(run_dir / "launch.json", house.good.argv).read()[0]

    async def say() -> None:
        house.say()

    try:
        while not (run_dir / "serve.sock").exists() or not house.living("engine"):
            assert parent.poll() is None, (folder / "output").read_text()
            await asyncio.sleep(0.02)
        yield Stand(
            server=lambda: ProcessServer(run_dir),
            good=house.good,
            other=house.command("--block-size", "256", mark="a second one"),
            stubborn=house.command("--ignore-term", "--workers"),
            failing=house.command("--fail"),
            engines=engines,
            leftovers=leftovers,
            overlapped=lambda: house.overlapped,
            next_start=next_start,
            bystanders_live=lambda: house.decoy_lives and parent.poll() is None,
            say=say,
        )
    finally:
        parent.terminate()
        try:
            parent.wait(30)
        except subprocess.TimeoutExpired:
            parent.kill()
            parent.wait(30)
        house.close()


class TestProcessServer(ServerContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def stand(self) -> AbstractAsyncContextManager[Stand]:
        return process_stand(self.folder)


def test_without_a_guardian_it_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match="trimtab serve"):
        asyncio.run(ProcessServer(tmp_path).look())
