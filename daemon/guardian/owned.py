"""A process started here, in a process group of its own."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import IO

from change.server import ProcessMark
from daemon.process_mark import process_mark

_PR_SET_PDEATHSIG = 1


class Owned:
    """The child with its number and start time; `output` takes its stdout and stderr, else they are inherited.

    With `ends_with_us` it is asked to end when this process dies, however that happens.

    Raises `OSError` if it cannot be started.
    """

    def __init__(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        output: IO[bytes] | None = None,
        *,
        ends_with_us: bool = False,
    ) -> None:
        # A group of its own: Ctrl-C at the terminal reaches Trimtab only, which hands it on once.
        self._process = subprocess.Popen(  # noqa: S603 - the operator's own command, as an argument list
            list(command),
            env=dict(environ),
            stdin=subprocess.DEVNULL if sys.stdin is None or sys.stdin.isatty() else None,
            stdout=output,
            stderr=output,
            process_group=0,
            preexec_fn=_tied(os.getpid()) if ends_with_us else None,  # safe: this program has one thread
        )
        self.pid = self._process.pid
        # Our own child that is not buried: its number cannot be another's yet.
        self.mark = process_mark(self.pid) or ProcessMark(self.pid, 0.0)

    def send(self, number: signal.Signals) -> bool:
        """Hand a signal to the process, if it still runs: until it is buried its number is nobody else's."""
        if self.peek() is not None:
            return False
        os.kill(self.pid, number)
        return True

    def peek(self) -> int | None:
        """The exit code as `ended` tells it, without burying the process: its number stays its own."""
        if self._process.returncode is not None:
            return _as_shell(self._process.returncode)
        try:
            found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return self.ended()
        if found is None:
            return None
        return found.si_status if found.si_code == os.CLD_EXITED else 128 + found.si_status

    def ended(self) -> int | None:
        """The exit code as a shell has it (128 + signal), or None while it runs."""
        code = self._process.poll()
        return None if code is None else _as_shell(code)

    def wait(self, seconds: float) -> int | None:
        """Wait at most `seconds` for the end."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        return self.ended()


def _tied(parent: int) -> Callable[[], None]:
    """What the child does before it becomes the command: it has the kernel ask it to end after `parent`."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def tie() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:  # it died before that
            os._exit(1)

    return tie


def _as_shell(code: int) -> int:
    return code if code >= 0 else 128 - code
