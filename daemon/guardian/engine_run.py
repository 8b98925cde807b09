"""One run of the engine: its command, its processes, and its end."""

from __future__ import annotations

import signal

from change.server import LaunchCommand, ProcessMark, ServerState
from daemon.guardian.family import Family
from daemon.guardian.owned import Owned

LEFTOVER_SECONDS = 5.0
"""How long workers may outlive the main process in a stop, within the grace."""
LOOK_SECONDS = 15.0
"""How often the family is looked through while nothing happens; a stop looks each time."""


class EngineRun:
    """`owned` is the main process, started with `command`; `now` is in seconds of one clock that only goes forward."""

    def __init__(self, command: LaunchCommand, owned: Owned) -> None:
        self.command = command
        self._owned = owned
        self._family = Family(owned.pid)
        self._looked = float("-inf")
        self._deadline: float | None = None
        self._ended_at: float | None = None

    @property
    def pid(self) -> int:
        """The number of the main process."""
        return self._owned.pid

    @property
    def mark(self) -> ProcessMark:
        """The main process."""
        return self._owned.mark

    def send(self, number: signal.Signals) -> bool:
        """Hand a signal to the main process, if it still runs."""
        return self._owned.send(number)

    @property
    def identity(self) -> str:
        """The name of this run."""
        mark = self._owned.mark
        return f"{mark.pid}@{mark.started:.2f}@{mark.boot[:8]}"

    @property
    def code(self) -> int | None:
        """The main process's exit code, None while it runs."""
        return self._owned.peek()

    def look(self, now: float, *, fresh: bool = False) -> None:
        """Look through the family if it is time, or if `fresh`."""
        if fresh or now - self._looked >= LOOK_SECONDS:
            self._looked = now
            self._family.look()

    def living(self) -> tuple[ProcessMark, ...]:
        """What still runs of it, the main process first."""
        main = () if self.code is not None else (self._owned.mark,)
        return (*main, *self._family.living())

    def state(self, now: float) -> ServerState:
        """What a hand says of it."""
        self.look(now, fresh=True)
        code = self.code
        return ServerState(code is None, self.identity, code, self.living())

    def ask_to_end(self, now: float, grace_seconds: float) -> None:
        """Begin its end, or bring the end of the grace nearer."""
        first = self._deadline is None
        self._deadline = min(now + grace_seconds, float("inf") if self._deadline is None else self._deadline)
        if first:
            # Before the signal: whose parent has ended is found by nobody any more.
            self.look(now, fresh=True)
            self._owned.send(signal.SIGTERM)

    def drive_end(self, now: float) -> bool:
        """Go on with an end that was asked for; tells whether nothing of it is left."""
        assert self._deadline is not None, "the end was not asked for"
        self.look(now, fresh=True)
        if self.code is not None and self._ended_at is None:
            self._ended_at = now
        late = now >= self._deadline
        if self._ended_at is not None:
            late = late or now >= self._ended_at + LEFTOVER_SECONDS
        if late:
            self._owned.send(signal.SIGKILL)
            self._family.kill()
        return not self.living()

    def bury(self) -> int:
        """Take the exit code of the ended main process; its number is free from then on."""
        code = self._owned.wait(10.0)
        return 0 if code is None else code
