"""The host lane as campaigns see it."""

from __future__ import annotations

from typing import Protocol

from change.host import HostControl
from change.lock import EngineLock, NodeLock


class HostSide(Protocol):
    """The host lane that campaigns try values through."""

    @property
    def hand(self) -> HostControl:
        """The hand on the host."""
        ...

    def boot_id(self) -> str:
        """This boot of the host, as the journal names it."""
        ...

    def node_lock(self, what: str) -> NodeLock | None:
        """The right to change what all of the node shares; None where nobody else could."""
        ...

    def process_lock(self, what: str) -> EngineLock | None:
        """The right to change the engine's process, which needs no plugin to be told; None as above. It blocks."""
        ...
