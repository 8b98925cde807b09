"""Run the engine and the daemon side by side: `trimtab serve -- COMMAND`.

Both are children, so that whatever happens to the daemon the engine goes on. Signals meant for the engine are
handed to the one process started here, and to no other.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from daemon.errors import UserError
from daemon.paths import ENGINE_PID_VARIABLE

FORWARDED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
"""Signals handed on to the engine."""
ENDING = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})
"""Signals after which no daemon is started again."""
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
DAEMON_GRACE_SECONDS = 10.0
MIDDLEWARE = "trimtab_plugin.http.Middleware"
CANNOT_RUN = 126
NOT_FOUND = 127


@dataclass(frozen=True, slots=True)
class Addition:
    """What is added to the engine's command, or why nothing is."""

    arguments: tuple[str, ...]
    text: str


def addition(command: Sequence[str], find_plugin: Callable[[str], bool]) -> Addition:
    """Decide whether the plugin's middleware is added to `command`.

    It is added to vLLM's server only, where the plugin is installed and nobody named it already: a server
    does not start with a middleware it cannot import. `find_plugin(python)` tells whether that Python has it.
    """
    if any("trimtab_plugin" in word for word in command):
        return Addition((), "the command names the plugin already")
    python = _interpreter(command)
    if python is None:
        return Addition(
            (), "the command is no vLLM server: no hot lane, unless its plugin is loaded otherwise"
        )
    if not find_plugin(python):
        return Addition((), f"trimtab-plugin is not installed for {python}: no hot lane; install it there")
    return Addition(("--middleware", MIDDLEWARE), f"added to the command: --middleware {MIDDLEWARE}")


def _interpreter(command: Sequence[str]) -> str | None:
    """The Python that runs a vLLM server command, or None if the command is something else."""
    if not command:
        return None
    program = Path(command[0]).name
    if program.startswith("python") and "vllm.entrypoints.openai.api_server" in command:
        return command[0]
    if program == "vllm" and len(command) > 1 and command[1] == "serve":
        script = shutil.which(command[0])
        return _shebang(Path(script)) if script else None
    return None


def _shebang(script: Path) -> str | None:
    try:
        with script.open("rb") as file:
            first = file.readline(1024)
    except OSError:
        return None
    if not first.startswith(b"#!"):
        return None
    words = first[2:].decode(errors="replace").split()
    if words and Path(words[0]).name == "env":
        words = [word for word in words[1:] if not word.startswith("-")]
    return words[0] if words else None


def has_plugin(python: str) -> bool:
    """Whether the interpreter finds the plugin's package; nothing of the engine is imported."""
    question = "import importlib.util as u, sys; sys.exit(u.find_spec('trimtab_plugin') is None)"
    try:
        answer = subprocess.run(  # noqa: S603 - the interpreter of the operator's own command
            [python, "-c", question], stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return answer.returncode == 0


class Owned:
    """A process started here, in a process group of its own."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], mask: set[signal.Signals]) -> None:
        # A group of its own: Ctrl-C at the terminal reaches Trimtab only, which hands it on once.
        self._process = subprocess.Popen(  # noqa: S603 - the operator's own command, as an argument list
            list(command),
            env=dict(environ),
            stdin=subprocess.DEVNULL if sys.stdin is None or sys.stdin.isatty() else None,
            process_group=0,
            # The signals blocked here must reach the child; only this one thread exists when it forks.
            preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, mask),
        )
        self.pid = self._process.pid
        self._started = _start_time(self.pid)

    def send(self, number: signal.Signals) -> bool:
        """Hand a signal to the process, if it is still the one that was started."""
        if self._process.poll() is not None or _start_time(self.pid) != self._started:
            return False
        self._process.send_signal(number)
        return True

    def ended(self) -> int | None:
        """The exit code as a shell has it (128 + signal), or None while it runs."""
        code = self._process.poll()
        return code if code is None or code >= 0 else 128 - code

    def wait(self, seconds: float) -> int | None:
        """Wait at most `seconds` for the end."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        return self.ended()


def _start_time(pid: int) -> float | None:
    try:
        return psutil.Process(pid).create_time()
    except psutil.Error:
        return None


def serve(
    engine: Sequence[str],
    daemon: Sequence[str],
    environ: Mapping[str, str],
    say: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Run both until the engine ends; returns the engine's exit code.

    The daemon is started again with growing pauses when it ends by itself. Raises `UserError` if the engine's
    command cannot be started.
    """
    watched = {*FORWARDED, signal.SIGCHLD}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    kept: set[signal.Signals] = {signal.Signals(number) for number in mask}
    try:
        try:
            child = Owned(engine, environ, kept)
        except FileNotFoundError as error:
            raise UserError(f"{engine[0]}: no such command; is it on PATH?", NOT_FOUND) from error
        except OSError as error:
            raise UserError(f"{engine[0]}: cannot be started: {error.strerror}", CANNOT_RUN) from error
        return _Pair(child, daemon, environ, kept, say, clock).run(watched)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


class _Pair:
    """The engine and its daemon."""

    def __init__(
        self,
        engine: Owned,
        daemon: Sequence[str],
        environ: Mapping[str, str],
        mask: set[signal.Signals],
        say: Callable[[str], None],
        clock: Callable[[], float],
    ) -> None:
        self._engine = engine
        self._command = daemon
        self._environ = {**environ, ENGINE_PID_VARIABLE: str(engine.pid)}
        self._mask = mask
        self._say = say
        self._clock = clock
        self._daemon: Owned | None = None
        self._begun = 0.0
        self._again_at: float | None = clock()
        self._pause = FIRST_PAUSE_SECONDS
        self._ending = False

    def run(self, watched: set[signal.Signals]) -> int:
        """Live until the engine ends."""
        while True:
            self._look_after_daemon()
            code = self._engine.ended()
            if code is not None:
                self._end_daemon()
                return code
            # The wait also ends by itself, so that a grandchild adopted as process 1 is reaped in time.
            arrived = signal.sigtimedwait(watched, self._rest())
            if arrived is not None and arrived.si_signo != signal.SIGCHLD:
                self._hand_on(signal.Signals(arrived.si_signo))
            if os.getpid() == 1:
                _reap_orphans({self._engine.pid, self._daemon.pid if self._daemon else -1})

    def _rest(self) -> float:
        return 1.0 if self._again_at is None else min(1.0, max(0.0, self._again_at - self._clock()))

    def _hand_on(self, number: signal.Signals) -> None:
        self._engine.send(number)
        if number in ENDING:
            self._ending = True
            self._again_at = None
            if self._daemon is not None:
                self._daemon.send(signal.SIGTERM)

    def _look_after_daemon(self) -> None:
        now = self._clock()
        if self._daemon is not None:
            code = self._daemon.ended()
            if code is None:
                return
            self._daemon = None
            if self._ending:
                return
            if now - self._begun > LONGEST_PAUSE_SECONDS:
                self._pause = FIRST_PAUSE_SECONDS
            self._say(
                f"the daemon ended with code {code}; the engine goes on, "
                f"the daemon is started again in {self._pause:g} s"
            )
            self._again_at = now + self._pause
            self._pause = min(self._pause * 2, LONGEST_PAUSE_SECONDS)
        if self._again_at is not None and now >= self._again_at:
            self._again_at = None
            try:
                self._daemon = Owned(self._command, self._environ, self._mask)
                self._begun = now
            except OSError as error:
                self._say(f"the daemon cannot be started ({error.strerror}); the engine goes on without it")
                self._again_at = now + LONGEST_PAUSE_SECONDS

    def _end_daemon(self) -> None:
        if self._daemon is None:
            return
        self._daemon.send(signal.SIGTERM)
        if self._daemon.wait(DAEMON_GRACE_SECONDS) is None:
            self._say(f"the daemon did not end within {DAEMON_GRACE_SECONDS:g} s: it is killed")
            self._daemon.send(signal.SIGKILL)
            self._daemon.wait(DAEMON_GRACE_SECONDS)


def _reap_orphans(ours: set[int]) -> None:
    """As process 1 of a container, bury the engine's orphaned workers, but not our own children."""
    for process in psutil.Process().children():
        if process.pid not in ours and _is_zombie(process):
            try:
                os.waitpid(process.pid, os.WNOHANG)
            except ChildProcessError:
                continue


def _is_zombie(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False
