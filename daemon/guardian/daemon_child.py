"""The daemon beside the engine: started again with growing pauses when it ends by itself."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence

from daemon.guardian.owned import Owned

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
GRACE_SECONDS = 10.0


class DaemonChild:
    """Starts `command` with `environ` at the first `look_after`; `now` is in seconds of one clock."""

    def __init__(
        self, command: Sequence[str], environ: Mapping[str, str], say: Callable[[str], None], now: float
    ) -> None:
        self._command = command
        self._environ = environ
        self._say = say
        self._child: Owned | None = None
        self._begun = 0.0
        self._again_at: float | None = now
        self._pause = FIRST_PAUSE_SECONDS
        self._ending = False

    @property
    def pid(self) -> int | None:
        """Its number, None while it is away."""
        return None if self._child is None else self._child.pid

    def rest(self, now: float, longest: float) -> float:
        """How long nothing is due, at most `longest` seconds."""
        return longest if self._again_at is None else min(longest, max(0.0, self._again_at - now))

    def dismiss(self) -> None:
        """Ask it to end, and start none again."""
        self._ending = True
        self._again_at = None
        if self._child is not None:
            self._child.send(signal.SIGTERM)

    def look_after(self, now: float, change: bool) -> None:
        """Start it if it is due; with `change` (of the engine, unfinished) a daemon is needed soon."""
        if self._child is not None:
            code = self._child.ended()
            if code is None:
                return
            self._child = None
            if self._ending:
                return
            if change or now - self._begun > LONGEST_PAUSE_SECONDS:
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
                self._child = Owned(self._command, self._environ, ends_with_us=True)
                self._begun = now
            except OSError as error:
                self._say(f"the daemon cannot be started ({error.strerror}); the engine goes on without it")
                self._again_at = now + LONGEST_PAUSE_SECONDS

    def end(self) -> None:
        """Have it end, by force if it must be."""
        if self._child is None:
            return
        self._child.send(signal.SIGTERM)
        if self._child.wait(GRACE_SECONDS) is None:
            self._say(f"the daemon did not end within {GRACE_SECONDS:g} s: it is killed")
            self._child.send(signal.SIGKILL)
            self._child.wait(GRACE_SECONDS)
