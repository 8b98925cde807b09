"""The engine as a child: its output, signals and exit code are its own, and the daemon's death is not its death."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from daemon.cli import run
from daemon.paths import engine_pid

WAIT_SECONDS = 60.0

SERVE = """
import os, sys
from daemon.cli import run
from daemon.serve import serve
split = sys.argv.index("--")
sys.exit(serve(sys.argv[1:split], sys.argv[split + 1 :], os.environ, lambda text: print("trimtab:", text, flush=True)))
"""
SLEEPER = "import time; print('up', flush=True); time.sleep(60)"


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


class Served:
    """`serve` in a process of its own, with its output in a file."""

    def __init__(self, folder: Path, engine: str, daemon: str = SLEEPER) -> None:
        self.output = folder / "output"
        python = sys.executable
        with self.output.open("wb") as file:
            self.process = subprocess.Popen(
                [python, "-c", SERVE, python, "-c", engine, "--", python, "-c", daemon],
                stdout=file,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )

    def text(self) -> str:
        return self.output.read_text()

    def says(self, text: str) -> None:
        until(lambda: text in self.text() or self.process.poll() is not None)
        assert text in self.text()

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children()

    def end(self) -> None:
        if self.process.poll() is None:
            family = psutil.Process(self.process.pid).children(recursive=True)
            self.process.kill()
            for child in family:
                child.kill()
        self.process.wait(WAIT_SECONDS)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    started: list[Served] = []

    def start(engine: str, daemon: str = SLEEPER) -> Served:
        started.append(Served(tmp_path, engine, daemon))
        return started[-1]

    yield start
    for one in started:
        one.end()


@pytest.mark.parametrize(
    ("ending", "code"), [("sys.exit(0)", 0), ("sys.exit(7)", 7), ("os.kill(os.getpid(), 9)", 137)]
)
def test_the_engines_exit_code_is_the_exit_code(serve: Callable[..., Served], ending: str, code: int) -> None:
    served = serve(f"import os, sys; print('hello'); sys.stdout.flush(); {ending}")
    assert served.process.wait(WAIT_SECONDS) == code
    assert "hello" in served.text()


def test_when_the_engine_ends_so_does_the_daemon(serve: Callable[..., Served], tmp_path: Path) -> None:
    note = tmp_path / "daemon"
    daemon = (
        f"import os, pathlib, time; pathlib.Path({str(note)!r}).write_text(str(os.getpid())); time.sleep(60)"
    )
    served = serve(
        f"import pathlib, time\nwhile not pathlib.Path({str(note)!r}).exists(): time.sleep(0.02)", daemon
    )
    assert served.process.wait(WAIT_SECONDS) == 0
    assert not psutil.pid_exists(int(note.read_text()))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_signals_are_handed_to_the_engine(serve: Callable[..., Served], number: signal.Signals) -> None:
    served = serve(
        "import signal, sys, time\n"
        f"signal.signal({int(number)}, lambda *_: sys.exit(42))\n"
        "print('engine up', flush=True)\ntime.sleep(60)"
    )
    served.says("engine up")
    served.process.send_signal(number)
    assert served.process.wait(WAIT_SECONDS) == 42


def test_the_engine_has_a_group_of_its_own_and_no_blocked_signals(serve: Callable[..., Served]) -> None:
    served = serve(
        "import os, signal\n"
        "print('own group', os.getpgid(0) == os.getpid(), flush=True)\n"
        "print('blocked', signal.pthread_sigmask(signal.SIG_BLOCK, []), flush=True)"
    )
    served.process.wait(WAIT_SECONDS)
    assert "own group True" in served.text()
    assert "blocked set()" in served.text()


def test_a_daemon_that_crashes_is_said_and_started_again_and_the_engine_goes_on(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    starts = tmp_path / "starts"
    daemon = f"import sys; open({str(starts)!r}, 'a').write('x'); sys.exit(3)"
    engine = (
        "import pathlib, time\n"
        f"p = pathlib.Path({str(starts)!r})\n"
        "while not (p.exists() and len(p.read_text()) >= 2): time.sleep(0.02)\n"
        "print('engine alive', flush=True)"
    )
    served = serve(engine, daemon)
    assert served.process.wait(WAIT_SECONDS) == 0
    assert "the daemon ended with code 3; the engine goes on" in served.text()
    assert "engine alive" in served.text()


def test_killing_the_daemon_leaves_the_engine(serve: Callable[..., Served]) -> None:
    served = serve(
        "import time; print('engine up', flush=True); time.sleep(60)", "import time; time.sleep(60)"
    )
    served.says("engine up")
    until(lambda: len(served.children()) == 2)
    engine, daemon = sorted(served.children(), key=lambda child: child.create_time())
    daemon.send_signal(signal.SIGKILL)
    served.says("the daemon ended with code 137; the engine goes on")
    assert engine.is_running()


def test_after_an_ending_signal_no_daemon_is_started_again(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    starts = tmp_path / "starts"
    daemon = f"import time; open({str(starts)!r}, 'a').write('x'); time.sleep(60)"
    engine = (
        "import signal, sys, time\n"
        "def drain(*_):\n    time.sleep(1.5)\n    sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, drain)\nprint('engine up', flush=True)\ntime.sleep(60)"
    )
    served = serve(engine, daemon)
    served.says("engine up")
    until(starts.exists)
    served.process.send_signal(signal.SIGTERM)
    assert served.process.wait(WAIT_SECONDS) == 0
    assert starts.read_text() == "x"


@pytest.mark.parametrize(("command", "code"), [("/nowhere/vllm", 127), ("/etc/passwd", 126)])
def test_a_command_that_cannot_start_is_said(
    command: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["serve", "--", command]) == code
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(f"trimtab: {command}: ")


@pytest.mark.parametrize("place", ["configuration", "environment"])
def test_a_token_file_that_is_named_and_not_there_is_made(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, config = tmp_path / "run" / "secret", tmp_path / "trimtab.yaml"
    if place == "configuration":
        config.write_text(f"engine: {{token_file: {token}}}")
    else:
        config.touch()
        monkeypatch.setenv("TRIMTAB_TOKEN_FILE", str(token))
    assert run(["serve", "-c", str(config), "--", "/nowhere/vllm"]) == 127
    assert len(token.read_text().strip()) >= 32
    assert token.stat().st_mode & 0o777 == 0o600


def test_the_daemon_is_told_which_process_the_engine_is(tmp_path: Path) -> None:
    engine = "import os, time; print('engine', os.getpid(), flush=True); time.sleep(60)"
    daemon = "import time; from daemon.paths import engine_pid; print('told', engine_pid(), flush=True); time.sleep(60)"
    served = Served(tmp_path, engine, daemon)
    try:
        served.says("engine ")
        served.says("told ")
        lines = dict(line.split() for line in served.text().splitlines() if line[:5] in ("engin", "told "))
        assert lines["told"] == lines["engine"]
    finally:
        served.end()


def test_nobody_is_told_of_an_engine_that_is_not_ours() -> None:
    assert engine_pid({}) is None
    assert engine_pid({"TRIMTAB_ENGINE_PID": "1; rm"}) is None
