"""The hand `hook` keeps the contract with an operator's program that does its part, and says so when one does not."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from change.server import LaunchCommand, ServerBusy, ServerError
from daemon.engine.hook import HookServer
from daemon.sections.server import HookSection
from tests.change.server_contract import ServerContract, Stand
from tests.change.standing_engine import EngineHouse

PROGRAM = r"""
import ctypes, fcntl, json, os, pathlib, signal, subprocess, sys, time
home = pathlib.Path(sys.argv[1])
given = json.loads(sys.stdin.readline())
assert given["version"] == 1
lock = open(home / "hook-lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
run_file, keep_file = home / "run.json", home / "keep.json"
run = json.loads(run_file.read_text()) if run_file.exists() else None

def members():
    # Of the engine's run: its processes have the run's mark in their environment.
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdecimal() and run:
            try:
                marked = f"HOOK_RUN={run['identity']}".encode() in (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if marked:
                found.append(int(entry.name))
    return found

def code():
    file = home / f"code-{run['identity']}"
    return int(file.read_text()) if file.exists() else None

action = given["action"]
if action == "look":
    running = bool(run) and code() is None
    print(json.dumps({"running": running, "identity": run and run["identity"], "exit_code": run and code(),
                      "command": run and run["command"], "pids": members()}))
elif action == "start":
    if members():
        print("an engine runs already", file=sys.stderr)
        sys.exit(75)
    number = str(time.time_ns())
    run = {"identity": number, "command": given["command"]}
    run_file.write_text(json.dumps(run))
    os.set_inheritable(lock.fileno(), False)
    if os.fork() == 0:
        lock.close()
        os.setsid()
        environ = {**os.environ, **given["command"].get("environ", {}), "HOOK_RUN": number}
        with open(home / f"log-{number}", "w") as log:
            done = subprocess.run(given["command"]["argv"], env=environ, stdin=subprocess.DEVNULL,
                                  stdout=log, stderr=log).returncode
        (home / f"code-{number}.new").write_text(str(done))
        (home / f"code-{number}.new").rename(home / f"code-{number}")
        os._exit(0)
    deadline = time.monotonic() + 20
    while not members() and code() is None and time.monotonic() < deadline:
        time.sleep(0.01)
elif action == "stop":
    deadline, number = time.monotonic() + given["grace_seconds"], signal.SIGTERM
    while run and (members() or code() is None):
        for pid in members():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass
        number = signal.SIGKILL if time.monotonic() > deadline else 0
        time.sleep(0.02)
elif action == "keep":
    keep_file.write_text(json.dumps(given["command"]))
elif action == "log":
    of, _, begin = given.get("position", "").partition(":")
    begin = int(begin) if run and of == run["identity"] else 0
    file = home / f"log-{run['identity']}" if run else None
    data = file.read_bytes() if file and file.exists() else b""
    end = data.rfind(b"\n") + 1
    print(json.dumps({"lines": data[begin:end].decode().splitlines(), "position": f"{run and run['identity']}:{end}"}))
"""


@asynccontextmanager
async def hook_stand(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stand]:
    house = EngineHouse(folder / "house")
    monkeypatch.setenv("FAKE_ENGINE_HOME", str(house.home))
    program = folder / "engine-hook"
    program.write_text(f"#!{sys.executable} -IS\n{PROGRAM}")
    program.chmod(0o755)
    argv = [str(program), str(house.home)]
    section = HookSection(look=argv, start=argv, stop=argv, keep=argv, log=argv)

    async def engines() -> int:
        return len(house.living("engine"))

    async def leftovers() -> int:
        return len(house.living("engine")) + len(house.living("worker"))

    async def next_start() -> LaunchCommand:
        kept = json.loads((house.home / "keep.json").read_text())
        return LaunchCommand(tuple(kept["argv"]), kept["environ"])

    async def say() -> None:
        house.say()

    try:
        await HookServer(section).start(house.good)
        yield Stand(
            server=lambda: HookServer(section),
            good=house.good,
            other=house.command("--block-size", "256", mark="a second one"),
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
        await HookServer(section).stop(grace_seconds=0.1)
        house.close()


class TestHookServer(ServerContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = tmp_path
        self.monkeypatch = monkeypatch

    def stand(self) -> AbstractAsyncContextManager[Stand]:
        return hook_stand(self.folder, self.monkeypatch)


def shell(line: str) -> list[str]:
    return ["/bin/sh", "-c", line]


def hand(look: str, *, start: str = "exit 1", stop: str = "exit 1", seconds: float = 20) -> HookServer:
    return HookServer(
        HookSection(look=shell(look), start=shell(start), stop=shell(stop), timeout_seconds=seconds)
    )


IDLE = """echo '{"running": false, "identity": null, "more": "is passed over"}'"""
BUSY = """echo '{"running": true, "identity": "a", "exit_code": 9}'"""


def test_what_it_prints_must_be_understood() -> None:
    for line in ("echo running", "echo '{}'", """echo '{"running": "yes"}'""", "true"):
        with pytest.raises(ServerError, match="not understood"):
            asyncio.run(hand(line).look())


def test_a_running_engine_has_no_exit_code() -> None:
    state = asyncio.run(hand(BUSY).look())
    assert (state.running, state.identity, state.exit_code) == (True, "a", None)


def test_a_failure_is_handed_on_in_its_own_words_and_75_is_busy() -> None:
    command = LaunchCommand(("vllm", "serve"))
    with pytest.raises(ServerError, match="no room left") as caught:
        asyncio.run(hand(IDLE, start="echo starting; echo 'no room left' >&2; exit 4").start(command))
    assert not isinstance(caught.value, ServerBusy)
    with pytest.raises(ServerBusy, match="a rollout"):
        asyncio.run(hand(IDLE, start="echo 'a rollout' >&2; exit 75").start(command))


def test_a_program_that_is_late_is_ended_and_what_it_left_running_is_not(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    line = f"sleep 600 & echo $! > {note}; sleep 600"
    with pytest.raises(ServerError, match="did not end within"):
        asyncio.run(hand(IDLE, start=line, seconds=3).start(LaunchCommand(("vllm",))))
    subprocess.run(["kill", note.read_text().strip()], check=True)


def test_a_stop_that_leaves_the_engine_running_is_no_stop() -> None:
    with pytest.raises(ServerError, match="still runs"):
        asyncio.run(hand(BUSY, stop="true").stop(grace_seconds=1))


def test_a_program_that_is_not_there_is_said(tmp_path: Path) -> None:
    argv = [str(tmp_path / "nothing")]
    with pytest.raises(ServerError, match="cannot be run"):
        asyncio.run(HookServer(HookSection(look=argv, start=argv, stop=argv)).look())


def test_without_a_program_for_it_there_is_no_log_and_nothing_is_kept() -> None:
    plain = hand(IDLE)
    assert asyncio.run(plain.log(None)).lines == ()
    asyncio.run(plain.keep(LaunchCommand(("vllm",))))
