"""A stand-in for an engine's server: real processes that start, write, have workers, and end or refuse to end.

`EngineHouse` makes its command, knows what runs without asking any hand, and keeps a decoy: a process with the very
same command line and program name, which no hand may touch. Processes are known by number and start time.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from change.server import LaunchCommand

PROGRAM = """
import fcntl, os, signal, subprocess, sys, time
words, home = sys.argv[1:], os.environ["FAKE_ENGINE_HOME"]
def note(kind):
    stat = open("/proc/self/stat").read().rpartition(")")[2].split()
    with open(f"{home}/{kind}-{os.getpid()}-{stat[19]}", "w"):
        pass
if "worker" in words:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note("worker")
    while True:
        time.sleep(60)
lock = open(f"{home}/lock", "w")
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    note("second")
os.set_inheritable(lock.fileno(), False)
if "--ignore-term" in words:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
else:
    def end(*_):
        print("Shutting down", flush=True)
        os._exit(0)
    signal.signal(signal.SIGTERM, end)
note("engine")
print("Initializing a V1 LLM engine", *words, "marked", os.environ.get("FAKE_ENGINE_MARK"), flush=True)
if "--workers" in words:
    subprocess.Popen([sys.argv[0], "worker"])
    subprocess.Popen([sys.argv[0], "worker"], start_new_session=True)
    while sum(name.startswith("worker") for name in os.listdir(home)) < 2:
        time.sleep(0.01)
if "--fail" in words:
    print("RuntimeError: it does not fit", file=sys.stderr, flush=True)
    os._exit(3)
print("Starting vLLM server on http://127.0.0.1:8000", flush=True)
lines = 0
while True:
    time.sleep(0.02)
    if os.path.exists(f"{home}/say"):
        os.unlink(f"{home}/say")
        lines += 1
        print("said", lines, flush=True)
"""


class EngineHouse:
    """A folder with the program `vllm` in it; engines started with `environ` leave their marks there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        self._decoy_home = folder / "decoy"
        self._decoy_home.mkdir()
        self.program = folder / "vllm"
        self.program.write_text(f"#!{sys.executable} -IS\n{PROGRAM}")
        self.program.chmod(0o755)
        self.environ = {**os.environ, "FAKE_ENGINE_HOME": str(self.home)}
        self.good = self.command("--block-size", "128")
        self._decoy = subprocess.Popen(
            self.good.argv,
            env={**os.environ, "FAKE_ENGINE_HOME": str(self._decoy_home)},
            stdout=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
        )

    def command(self, *words: str, mark: str | None = None) -> LaunchCommand:
        """Make the command of an engine with further `words`; `mark` comes back in its first line."""
        environ = {} if mark is None else {"FAKE_ENGINE_MARK": mark}
        return LaunchCommand((str(self.program), "serve", "a model's path", *words), environ)

    def living(self, kind: str) -> list[psutil.Process]:
        """The processes of a kind (`engine`, `worker`) that run now."""
        found = []
        for mark in self.home.glob(f"{kind}-*"):
            pid, started = (int(word) for word in mark.name.split("-")[1:])
            if _start_ticks(pid) == started:
                found.append(psutil.Process(pid))
        return found

    @property
    def overlapped(self) -> bool:
        """Whether two engines ever ran at one time."""
        return any(self.home.glob("second-*"))

    @property
    def decoy_lives(self) -> bool:
        return self._decoy.poll() is None

    def say(self) -> None:
        """Have the engine write one more line."""
        (self.home / "say").touch()

    def close(self) -> None:
        """End what is left: only processes that left their mark here, and the decoy."""
        for process in [*self.living("engine"), *self.living("worker")]:
            process.send_signal(signal.SIGKILL)
        self._decoy.kill()
        self._decoy.wait(30)


def _start_ticks(pid: int) -> int | None:
    """When a process that is no zombie began, in clock ticks since the host did; None if there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def until(condition: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    """Wait until `condition()` holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"it did not happen in time: {what}"
        time.sleep(0.02)
