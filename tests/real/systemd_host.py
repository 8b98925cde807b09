"""The hand `systemd` keeps the contract on a real systemd.

It writes units below /etc/systemd/system, so it is no part of the suite and runs only when it is named: on a host that
is there to be used up, or in a namespace with a systemd of its own.
"""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from change.server import EngineServer, LaunchCommand
from daemon.engine.systemd import SystemdServer
from daemon.engine.unit_words import environment, exec_start
from tests.change.server_contract import ServerContract, Stand
from tests.change.standing_engine import EngineHouse

UNIT = "trimtab-test@0.service"
FILE = Path("/etc/systemd/system") / UNIT


def call(*words: str) -> str:
    return subprocess.run(
        ["systemctl", *words], check=True, timeout=120, capture_output=True, text=True
    ).stdout


def forget(*folders: str) -> None:
    """Remove the drop-ins of the unit below `folders`."""
    for folder in folders:
        for file in Path(folder).glob(f"{UNIT}.d/*"):
            file.unlink()


def words(pid: int | str) -> list[str]:
    """The command line of a process."""
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")[:-1]


def begun_after_a_reboot() -> LaunchCommand:
    """What systemd starts once /run is forgotten."""
    call("stop", UNIT)
    forget("/run/systemd/system")
    call("daemon-reload")
    call("start", UNIT)
    pid = call("show", "--property=MainPID", "--value", UNIT).strip()
    pairs = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    marks = dict(pair.split("=", 1) for pair in pairs if pair.startswith("FAKE_ENGINE_MARK="))
    return LaunchCommand(tuple(words(pid)[2:]), marks)


@asynccontextmanager
async def stand(folder: Path) -> AsyncIterator[Stand]:
    house = EngineHouse(folder / "house")
    [home] = environment({"FAKE_ENGINE_HOME": str(house.home)})
    FILE.write_text(
        "[Service]\n"
        f"ExecStart={exec_start(house.good.argv)}\n"
        f"Environment={home}\nRestart=always\nRestartSec=0\n"
    )
    server = SystemdServer(UNIT)

    async def engines() -> int:
        return len(house.living("engine"))

    async def leftovers() -> int:
        return len(house.living("engine")) + len(house.living("worker"))

    async def next_start() -> LaunchCommand:
        return begun_after_a_reboot()

    async def say() -> None:
        house.say()

    try:
        call("daemon-reload")
        call("start", UNIT)
        yield Stand(
            server=lambda: SystemdServer(UNIT),
            good=house.good,
            other=house.command("--block-size", "256", mark='100% "sure" \\ of $HOME, {"a": 1}'),
            stubborn=house.command("--ignore-term", "--workers"),
            failing=house.command("--fail"),
            engines=engines,
            leftovers=leftovers,
            overlapped=lambda: house.overlapped,
            next_start=next_start,
            bystanders_live=lambda: house.decoy_lives,
            say=say,
        )
    finally:
        await server.stop(grace_seconds=2)
        FILE.unlink()
        forget("/etc/systemd/system", "/run/systemd/system")
        call("daemon-reload")
        house.close()


class TestRealSystemd(ServerContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def stand(self) -> AbstractAsyncContextManager[Stand]:
        return stand(self.folder)

    def test_words_with_every_sign_reach_the_engine(self) -> None:
        signs = (
            "",
            " ",
            "a b",
            "%h",
            "%%",
            "$HOME",
            "${HOME}",
            "$$",
            '"',
            "'",
            "\\",
            ";",
            "{}",
            "é",
            "\t",
            "\n",
            "-x",
        )

        async def test(stand: Stand, server: EngineServer) -> None:
            await server.stop(grace_seconds=20)
            await server.start(LaunchCommand((*stand.good.argv, *signs)))
            await stand.serves(server)
            state = await server.look()
            line = words(state.processes[0].pid)
            assert tuple(line[-len(signs) :]) == signs

        self.run(test)

    def test_all_processes_of_the_unit_are_told(self) -> None:
        async def test(stand: Stand, server: EngineServer) -> None:
            await server.stop(grace_seconds=20)
            await server.start(stand.stubborn)
            await stand.writes(server, "Starting vLLM server")
            assert len((await server.look()).processes) == 3

        self.run(test)
