"""Run the engine and the daemon side by side: `trimtab serve -- COMMAND`.

Both are children, so that whatever happens to the daemon the engine goes on. Signals meant for the engine are
handed to the one process started here, and to no other.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import psutil

from change.server import LaunchCommand, ProcessMark
from daemon.errors import UserError
from daemon.guardian.attendance import Attendance
from daemon.guardian.daemon_child import DaemonChild
from daemon.guardian.door import Door, DoorError
from daemon.guardian.engine_run import EngineRun
from daemon.guardian.guard import Guard
from daemon.guardian.launch_file import LaunchFile
from daemon.guardian.orders import Orders
from daemon.guardian.output import EngineOutput
from daemon.guardian.owned import Owned
from daemon.guardian.pid_file import read_pid_file, write_pid_file
from daemon.guardian.signals import Signals, caught
from daemon.guardian.wire import Answer, Peer, Request
from daemon.paths import ENGINE_PID_FILE_VARIABLE, ENGINE_PID_VARIABLE

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
"""Signals after which no daemon and no engine is started again."""
REST_SECONDS = 1.0
GUARDED_REST_SECONDS = 0.2
"""How often the engine's output is copied where it goes to a file, and a stop looked after."""
CANNOT_RUN = 126
NOT_FOUND = 127
OUTPUT_FILE = "engine.log"
LAUNCH_FILE = "launch.json"
PID_FILE = "engine.pid"


def serve(
    engine: Sequence[str],
    daemon: Sequence[str],
    environ: Mapping[str, str],
    say: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
    *,
    run_dir: Path | None = None,
    attendance: Attendance | None = None,
) -> int:
    """Run both until the engine ends; returns the engine's exit code.

    The daemon is started again with growing pauses when it ends by itself. With `run_dir` the daemon may have the
    engine ended and started: the guardian listens there, and the engine writes to a file there that is copied to
    stdout. `attendance` tells when a daemon that began such a change is given up. Raises `UserError` if the
    engine's command cannot be started, or `run_dir` cannot be used.
    """
    patience = attendance or Attendance()
    with caught([*FORWARDED, signal.SIGCHLD]) as signals, selectors.DefaultSelector() as selector:
        selector.register(signals, selectors.EVENT_READ)
        if run_dir is not None:
            return _guarded(run_dir, engine, daemon, environ, say, clock, patience, selector, signals)
        guard = _guard(LaunchCommand(tuple(engine)), environ, None, patience, say)
        child = DaemonChild(daemon, {**environ, ENGINE_PID_VARIABLE: str(guard.pid)}, say, clock())
        return _Pair(guard, child, clock).run(selector, signals)


def _guarded(
    run_dir: Path,
    engine: Sequence[str],
    daemon: Sequence[str],
    environ: Mapping[str, str],
    say: Callable[[str], None],
    clock: Callable[[], float],
    attendance: Attendance,
    selector: selectors.BaseSelector,
    signals: Signals,
) -> int:
    def answer(request: Request, peer: Peer) -> Answer:
        return orders.answer(request, peer, clock())

    try:
        # Before the engine: two parents of one folder must not even start two engines.
        door = Door(run_dir, selector, answer, clock)
    except DoorError as error:
        raise UserError(str(error), CANNOT_RUN) from error
    try:
        left = read_pid_file(run_dir / PID_FILE)
        if left is not None:
            raise UserError(
                f"{run_dir / PID_FILE}: the engine of an earlier `trimtab serve` still runs (process {left.pid}), "
                f"and a second one would take the same cards: end it (kill {left.pid}), then start again",
                CANNOT_RUN,
            )
        launch_file = LaunchFile(run_dir / LAUNCH_FILE, engine)
        kept, remark = launch_file.read()
        if remark is not None:
            say(remark)
        output = EngineOutput(run_dir / OUTPUT_FILE, _stdout())
        guard = _guard(kept, environ, output, attendance, say)
        orders = Orders(guard, launch_file, output, attendance)
        pid_file = run_dir / PID_FILE
        child = DaemonChild(daemon, {**environ, ENGINE_PID_FILE_VARIABLE: str(pid_file)}, say, clock())
        return _GuardedPair(guard, child, clock, door, output, pid_file, say).run(selector, signals)
    finally:
        door.close()


def _stdout() -> int | None:
    try:
        return sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):
        return None


def _guard(
    kept: LaunchCommand,
    environ: Mapping[str, str],
    output: EngineOutput | None,
    attendance: Attendance,
    say: Callable[[str], None],
) -> Guard:
    def begin(command: LaunchCommand) -> EngineRun:
        file = None if output is None else output.begin()
        return EngineRun(command, Owned(command.argv, {**environ, **command.environ}, file))

    program = kept.argv[0]
    try:
        return Guard(kept, begin, attendance, say)
    except FileNotFoundError as error:
        raise UserError(f"{program}: no such command; is it on PATH?", NOT_FOUND) from error
    except OSError as error:
        raise UserError(f"{program}: cannot be started: {error.strerror}", CANNOT_RUN) from error


class _Pair:
    """The engine and its daemon."""

    rest_seconds = REST_SECONDS

    def __init__(self, guard: Guard, child: DaemonChild, clock: Callable[[], float]) -> None:
        self._guard = guard
        self._child = child
        self._clock = clock

    def run(self, selector: selectors.BaseSelector, signals: Signals) -> int:
        """Live until the engine ends."""
        try:
            while True:
                now = self._clock()
                self._child.look_after(now, self._guard.unfinished)
                code = self._guard.tick(now)
                if code is not None:
                    self._child.end()
                    return code
                self._look_after_files()
                # The wait also ends by itself, so that a grandchild adopted as process 1 is reaped in time.
                for key, _ in selector.select(self._child.rest(now, self.rest_seconds)):
                    if key.data is not None:
                        key.data()
                for number in signals.arrived():
                    if number != signal.SIGCHLD:
                        self._hand_on(number)
                if os.getpid() == 1:
                    _reap_orphans({self._guard.pid, self._child.pid})
        finally:
            self._close_files()

    def _hand_on(self, number: signal.Signals) -> None:
        self._guard.signal(number, ending=number in ENDING)
        if number in ENDING:
            self._child.dismiss()

    def _look_after_files(self) -> None:
        """Nothing: the engine's output is its own."""

    def _close_files(self) -> None:
        """Nothing was opened."""


class _GuardedPair(_Pair):
    """The same where the daemon gives orders and the engine writes to a file."""

    rest_seconds = GUARDED_REST_SECONDS

    def __init__(
        self,
        guard: Guard,
        child: DaemonChild,
        clock: Callable[[], float],
        door: Door,
        output: EngineOutput,
        pid_file: Path,
        say: Callable[[str], None],
    ) -> None:
        super().__init__(guard, child, clock)
        self._door = door
        self._output = output
        self._pid_file = pid_file
        self._say = say
        self._failed = False
        self._told: ProcessMark | None = None
        self._look_after_files()

    def _look_after_files(self) -> None:
        self._guard.watch(self._clock())
        self._door.sweep()
        try:
            self._output.copy()
            self._tell()
        except OSError as error:
            # A full disk is no reason to end the engine.
            if not self._failed:
                self._say(f"{error.filename or 'engine.log'}: {error.strerror}; the engine goes on")
            self._failed = True
        else:
            self._failed = False

    def _tell(self) -> None:
        mark = self._guard.mark
        if mark == self._told:
            return
        if mark is None:
            self._pid_file.unlink(missing_ok=True)
        else:
            write_pid_file(self._pid_file, mark)
        self._told = mark

    def _close_files(self) -> None:
        with contextlib.suppress(OSError):
            self._output.close()
            self._pid_file.unlink(missing_ok=True)


def _reap_orphans(ours: set[int | None]) -> None:
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
