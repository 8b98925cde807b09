"""Who looks after the engine while a change of it is not finished, and since when nobody does."""

from __future__ import annotations

from collections.abc import Callable

from daemon import process_mark
from daemon.guardian.wire import Peer

TAKEOVER_SECONDS = 120.0
"""How long a daemon that died may be missed before the guardian puts the kept command back itself."""
SILENT_SECONDS = 900.0
"""How long a living one may say nothing while no engine runs."""


def lives(peer: Peer) -> bool:
    """Whether the process still runs."""
    return peer.mark is not None and process_mark.lives(peer.mark)


class Attendance:
    """Remembers the process that gave the last order of an unfinished change.

    Looking alone is no attendance: a daemon that shows the state may have forgotten the change.
    """

    def __init__(
        self,
        alive: Callable[[Peer], bool] = lives,
        takeover_seconds: float = TAKEOVER_SECONDS,
        silent_seconds: float = SILENT_SECONDS,
    ) -> None:
        self._alive = alive
        self._takeover = takeover_seconds
        self._silent = silent_seconds
        self._who: Peer | None = None
        self._heard = 0.0
        self._missed: float | None = None

    def ordered(self, peer: Peer, now: float) -> None:
        """Note an order, the reading of a start's log, or the word that somebody attends."""
        self._who, self._heard, self._missed = peer, now, None

    def heard(self, peer: Peer, now: float) -> None:
        """Note any other request."""
        if peer == self._who:
            self._heard = now

    def lost(self, now: float, *, running: bool) -> bool:
        """Whether nobody looks after the change any more; `running` tells whether an engine runs meanwhile."""
        if self._who is not None and self._alive(self._who):
            self._missed = None
            return not running and now - self._heard >= self._silent
        if self._missed is None:
            self._missed = now
        return now - self._missed >= self._takeover
