"""An engine's container on a real Docker daemon, and a decoy beside it: the stand for the docker hand's tests."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from change.server import EngineServer, LaunchCommand
from daemon.engine.docker import DockerServer
from daemon.engine.docker_api import DockerApi
from tests.change.server_contract import Stand
from tests.daemon.engine.docker_daemon import IMAGE, DockerDaemon

NAME = "engine"
POLICY = {"Name": "unless-stopped", "MaximumRetryCount": 0}
DECOY = "another"


def launch(*words: str, mark: str | None = None) -> LaunchCommand:
    return LaunchCommand(
        ("/vllm", "serve", "a model's path", *words), {} if mark is None else {"FAKE_ENGINE_MARK": mark}
    )


GOOD = launch("--block-size", "128")
OTHER = launch("--block-size", "64", mark="cobalt")


def body(mark: Path, **host: Any) -> dict[str, Any]:
    return {
        "Image": IMAGE,
        "Entrypoint": ["/vllm", "serve"],
        "Cmd": list(GOOD.argv[2:]),
        "Env": ["KEPT=as it was"],
        "HostConfig": {"NetworkMode": "none", "RestartPolicy": POLICY, "Binds": [f"{mark}:/mark"], **host},
    }


@asynccontextmanager
async def docker_stand(daemon: DockerDaemon, **host: Any) -> AsyncIterator[Stand]:
    """A container named `engine` that runs, and another of the same image and command beside it."""
    mark, decoy_mark = (Path(tempfile.mkdtemp(prefix="trimtab-mark-")) for _ in range(2))
    decoy = daemon.run(DECOY, body(decoy_mark))
    since = time.time()
    daemon.run(NAME, body(mark, **host))
    hands: list[DockerServer] = []

    def server() -> EngineServer:
        hands.append(DockerServer(DockerApi(daemon.socket, timeout=60), NAME))
        return hands[-1]

    def ours() -> list[dict[str, Any]]:
        return [one for one in daemon.containers(running=True) if one["Id"] != decoy]

    async def engines() -> int:
        return len(ours())

    async def leftovers() -> int:
        return sum(len(daemon.call("GET", f"/containers/{one['Id']}/top")["Processes"]) for one in ours())

    async def next_start() -> LaunchCommand:
        found = daemon.inspect(NAME)
        assert found["HostConfig"]["RestartPolicy"] == POLICY
        others = [one for one in daemon.containers(running=False) if one["Id"] not in (decoy, found["Id"])]
        assert others == []
        config = found["Config"]
        environ = dict(entry.split("=", 1) for entry in config["Env"])
        return LaunchCommand((*(config["Entrypoint"] or ()), *config["Cmd"]), environ)

    async def say() -> None:
        (mark / "say").touch()

    try:
        yield Stand(
            server=server,
            good=GOOD,
            other=OTHER,
            stubborn=launch("--ignore-term", "--workers"),
            failing=launch("--fail"),
            engines=engines,
            leftovers=leftovers,
            overlapped=lambda: daemon.overlapped(since, but=decoy),
            next_start=next_start,
            bystanders_live=lambda: bool(daemon.inspect(decoy)["State"]["Running"]),
            say=say,
        )
    finally:
        for hand in hands:
            await hand.close()
        daemon.clear()
        for folder in (mark, decoy_mark):
            shutil.rmtree(folder)


def in_stand(
    daemon: DockerDaemon, test: Callable[[Stand, EngineServer], Awaitable[None]], **host: Any
) -> None:
    async def within() -> None:
        async with docker_stand(daemon, **host) as stand:
            server = stand.server()
            await stand.serves(server)
            await test(stand, server)
            assert not stand.overlapped()

    asyncio.run(within())
