"""`trimtab serve` with the hand `process`: real engines through crashes and ends at any point."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest

from change.server import LaunchCommand, ServerError
from daemon.commands.serve import guarded_folder
from daemon.config import Config
from daemon.engine.process import ProcessServer
from daemon.errors import ConfigError
from daemon.guardian.pid_file import write_pid_file
from daemon.paths import engine_pid
from daemon.process_mark import process_mark
from tests.change.standing_engine import EngineHouse, until

T = TypeVar("T")

SERVE = """
import os, sys
from pathlib import Path
from daemon.guardian.attendance import Attendance
from daemon.serve import serve
split = sys.argv.index("--")
say = lambda text: print("trimtab:", text, file=sys.stderr, flush=True)
patience = Attendance(takeover_seconds=1.0)
run_dir = Path(sys.argv[1])
sys.exit(serve(sys.argv[2:split], sys.argv[split + 1 :], os.environ, say, run_dir=run_dir, attendance=patience))
"""
ORDER = """
import asyncio, json, sys
from pathlib import Path
from change.server import LaunchCommand
from daemon.engine.process import ProcessServer
async def main():
    server = ProcessServer(Path(sys.argv[1]))
    await server.stop(grace_seconds=20)
    if len(sys.argv) > 2:
        await server.start(LaunchCommand(tuple(sys.argv[2:])))
asyncio.run(main())
"""


class Guarded:
    """`serve` in a process of its own, with a daemon that only waits."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.house = EngineHouse(folder / "house")
        self.run_dir = folder / "run"
        self.run_dir.mkdir()
        self.processes: list[subprocess.Popen[bytes]] = []

    def begin(self, command: LaunchCommand | None = None) -> subprocess.Popen[bytes]:
        daemon = (sys.executable, "-IS", "-c", "import time; time.sleep(600)")
        argv = (command or self.house.good).argv
        with (self.folder / "output").open("ab") as file:
            process = subprocess.Popen(
                [sys.executable, "-c", SERVE, str(self.run_dir), *argv, "--", *daemon],
                env=self.house.environ,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )
        self.processes.append(process)
        return process

    def up(self) -> subprocess.Popen[bytes]:
        process = self.begin()
        until(lambda: (self.run_dir / "serve.sock").exists() and self.engines() == 1, "it serves")
        until(lambda: "Starting vLLM server" in self.text(), "the engine's output comes through")
        return process

    def engines(self) -> int:
        return len(self.house.living("engine"))

    def text(self) -> str:
        return (self.folder / "output").read_text()

    def order(self, *words: str) -> None:
        """Have a process that ends afterwards order a stop, and a start with `words`."""
        argv = [sys.executable, "-c", ORDER, str(self.run_dir), *words]
        subprocess.run(argv, check=True, timeout=120)

    def ask(self, question: Callable[[ProcessServer], Coroutine[Any, Any, T]]) -> T:
        return asyncio.run(question(ProcessServer(self.run_dir)))

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(30)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait(30)
        self.house.close()


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    made = Guarded(tmp_path)
    yield made
    assert made.house.decoy_lives
    assert not made.house.overlapped
    made.close()


def test_who_stopped_the_engine_and_died_is_followed_by_the_kept_command(guarded: Guarded) -> None:
    guarded.up()
    guarded.order()
    until(lambda: "nobody finished the change" in guarded.text(), "the guardian acts")
    until(lambda: guarded.engines() == 1, "the kept command is back")
    assert guarded.ask(lambda server: server.command()) == guarded.house.good


def test_who_started_a_candidate_and_died_is_followed_by_the_kept_command(guarded: Guarded) -> None:
    guarded.up()
    guarded.order(*guarded.house.command("--block-size", "256", "--workers").argv)
    until(lambda: "nobody finished the change" in guarded.text(), "the guardian acts")

    def back() -> bool:
        return guarded.ask(lambda server: server.command()) == guarded.house.good and guarded.engines() == 1

    until(back, "the kept command is back")
    assert guarded.house.living("worker") == []


def test_an_engine_that_was_killed_is_started_again_by_who_said_so(guarded: Guarded) -> None:
    parent = guarded.up()
    guarded.ask(lambda server: server.stay(60.0))
    guarded.house.living("engine")[0].kill()
    until(lambda: "ended by itself" in guarded.text(), "the guardian tells it")
    state = guarded.ask(lambda server: server.look())
    assert (state.running, state.exit_code) == (False, 128 + signal.SIGKILL)
    guarded.ask(lambda server: server.stop(grace_seconds=5))
    guarded.ask(lambda server: server.start(guarded.house.good))
    until(lambda: guarded.engines() == 1, "it is back")
    guarded.ask(lambda server: server.keep(guarded.house.good))
    assert parent.poll() is None


def test_sigterm_while_the_engine_is_stopped_ends_all(guarded: Guarded) -> None:
    parent = guarded.up()
    guarded.ask(lambda server: server.stop(grace_seconds=20))
    parent.terminate()
    assert parent.wait(60) == 0
    assert guarded.engines() == 0
    assert not (guarded.run_dir / "serve.sock").exists()
    assert not (guarded.run_dir / "engine.pid").exists()


def test_sigterm_during_a_start_ends_the_started_engine_and_its_workers(guarded: Guarded) -> None:
    parent = guarded.up()
    command = guarded.house.command("--workers")
    guarded.ask(lambda server: server.stop(grace_seconds=20))
    guarded.ask(lambda server: server.start(command))
    until(lambda: len(guarded.house.living("worker")) == 2, "it has workers")
    until(lambda: guarded.text().count("Starting vLLM server") == 2, "it serves")
    guarded.ask(lambda server: server.look())
    parent.send_signal(signal.SIGTERM)
    assert parent.wait(60) == 0
    assert guarded.engines() == 0
    assert guarded.house.living("worker") == []


def test_the_engine_outlives_its_parent_and_can_go_on_writing(guarded: Guarded) -> None:
    parent = guarded.up()
    parent.kill()
    parent.wait(60)
    guarded.house.say()
    log = guarded.run_dir / "engine.log"
    until(lambda: "said 1" in log.read_text(), "it writes on")
    assert guarded.engines() == 1
    with pytest.raises(ServerError, match="no guardian"):
        guarded.ask(lambda server: server.look())


def test_a_parent_that_was_killed_takes_its_daemon_along_and_none_starts_beside_its_engine(
    guarded: Guarded,
) -> None:
    parent = guarded.up()
    engine = guarded.house.living("engine")[0]
    [daemon] = [child for child in psutil.Process(parent.pid).children() if child.pid != engine.pid]
    parent.kill()
    parent.wait(60)
    until(lambda: not lives_on(daemon), "the daemon ends")
    assert guarded.begin().wait(60) != 0
    assert f"still runs (process {engine.pid})" in guarded.text()
    assert guarded.engines() == 1
    engine.terminate()
    until(lambda: guarded.engines() == 0, "the engine ended")
    guarded.begin()
    until(lambda: guarded.engines() == 1, "now it serves again")


def lives_on(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_second_parent_in_the_same_folder_is_refused_before_it_starts_an_engine(guarded: Guarded) -> None:
    guarded.up()
    second = guarded.begin()
    assert second.wait(60) != 0
    assert "another `trimtab serve` uses this folder" in guarded.text()
    assert guarded.engines() == 1


def test_the_kept_command_starts_next_until_the_operator_gives_another(guarded: Guarded) -> None:
    parent = guarded.up()
    other = guarded.house.command("--block-size", "256", mark="kept")
    guarded.ask(lambda server: server.stop(grace_seconds=20))
    guarded.ask(lambda server: server.start(other))
    until(lambda: "256 marked kept" in guarded.text(), "it runs")
    guarded.ask(lambda server: server.keep(other))
    parent.terminate()
    parent.wait(60)
    parent = guarded.begin()
    until(lambda: guarded.text().count("256 marked kept") == 2, "the kept command runs")
    assert guarded.ask(lambda server: server.command()) == other
    parent.terminate()
    parent.wait(60)
    changed = guarded.house.command("--block-size", "512")
    guarded.begin(changed)
    until(lambda: "512 marked None" in guarded.text(), "the operator's own command runs")
    assert "the command of `trimtab serve` is another one now" in guarded.text()


def test_the_daemon_is_told_of_each_engine(guarded: Guarded) -> None:
    guarded.up()
    environ = {"TRIMTAB_ENGINE_PID_FILE": str(guarded.run_dir / "engine.pid")}
    first = engine_pid(environ)
    assert first == guarded.house.living("engine")[0].pid
    guarded.ask(lambda server: server.stop(grace_seconds=20))
    until(lambda: engine_pid(environ) is None, "none is told")
    guarded.ask(lambda server: server.start(guarded.house.good))
    until(lambda: engine_pid(environ) not in (None, first), "the next is told")


def test_an_engine_that_ends_by_itself_still_ends_all(guarded: Guarded) -> None:
    parent = guarded.begin(guarded.house.command("--fail"))
    assert parent.wait(60) == 3
    until(lambda: "it does not fit" in guarded.text(), "its last words come through")


def test_the_workers_of_an_engine_that_was_killed_do_not_outlive_the_guardian(guarded: Guarded) -> None:
    parent = guarded.begin(guarded.house.command("--workers"))
    until(lambda: len(guarded.house.living("worker")) > 0, "it has workers")
    until(lambda: (guarded.run_dir / "serve.sock").exists(), "it listens")
    guarded.ask(lambda server: server.look())  # what it began is looked for at each order, and every 15 s
    guarded.house.living("engine")[0].kill()
    assert parent.wait(60) == 128 + signal.SIGKILL
    assert guarded.house.living("worker") == []


def test_a_number_that_is_another_process_by_now_is_not_the_engines(tmp_path: Path) -> None:
    mine = process_mark(os.getpid())
    assert mine is not None
    file = tmp_path / "engine.pid"
    environ = {"TRIMTAB_ENGINE_PID_FILE": str(file)}
    write_pid_file(file, mine)
    assert engine_pid(environ) == mine.pid
    write_pid_file(file, replace(mine, started=mine.started - 1.0))
    assert engine_pid(environ) is None


def test_the_number_is_not_written_through_a_link(tmp_path: Path) -> None:
    mine = process_mark(os.getpid())
    assert mine is not None
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "engine.pid.new").symlink_to(victim)
    write_pid_file(tmp_path / "engine.pid", mine)
    assert victim.read_text() == "mine"


@pytest.mark.parametrize(("mode", "refused"), [(0o700, False), (0o755, False), (0o770, True), (0o702, True)])
def test_a_folder_that_others_can_write_is_refused(tmp_path: Path, mode: int, refused: bool) -> None:
    tmp_path.chmod(mode)
    settings = Config.model_validate({"engine": {"run_dir": str(tmp_path), "server": {"hand": "process"}}})
    if refused:
        with pytest.raises(ConfigError, match="writable for nobody else"):
            guarded_folder(settings)
    else:
        assert guarded_folder(settings) == tmp_path


def test_the_socket_is_this_users_alone(guarded: Guarded) -> None:
    guarded.up()
    assert (guarded.run_dir / "serve.sock").stat().st_mode & 0o777 == 0o600
    assert (guarded.run_dir / "engine.log").stat().st_mode & 0o777 == 0o600


def test_a_restart_is_quick_and_its_log_of_before_stays(guarded: Guarded) -> None:
    guarded.up()
    begun = time.monotonic()
    guarded.ask(lambda server: server.stop(grace_seconds=20))
    guarded.ask(lambda server: server.start(guarded.house.command("--block-size", "256")))
    assert time.monotonic() - begun < 20
    assert "128" in (guarded.run_dir / "engine.log.1").read_text()
