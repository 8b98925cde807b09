"""The port to the host lane: where threads and memory of an engine's running processes are, and the node's knobs.

Hands: `daemon.host`; `sim.host_hand` in the simulator. Nothing here needs a restart; everything has a read-back and an
undo that is exact (thread by thread, page count by node, the text of a file).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

Scope = Literal["engine", "node"]
"""`engine`: its own threads and pages, under the engine's lock. `node`: all of the host, under the node's lock too."""


@dataclass(frozen=True, slots=True)
class HostChange:
    """One value of one host knob: what the catalogue calls it, and the value as text, as `placement=nearest`."""

    knob: str
    value: str


@dataclass(frozen=True, slots=True)
class HostReading:
    """A host knob as it stands: `value` None is unknown, with the reason; `undo` is JSON that `restore` takes."""

    knob: str
    scope: Scope
    value: str | None
    reason: str | None = None
    undo: Mapping[str, Any] | None = None


class HostError(Exception):
    """The host would not do what was asked; the text says what, where and what to do."""


class HostControl(Protocol):
    """The host lane of one engine on one node."""

    async def choices(self) -> Mapping[str, tuple[str, ...]]:
        """Return the knobs that can be changed here, each with the values worth a trial, the one in force first."""
        ...

    async def read(self, knob: str) -> HostReading:
        """Read one knob with what its undo needs."""
        ...

    async def apply(self, change: HostChange) -> HostReading:
        """Set one knob and read it back: a value that did not take is seen by the caller, not hidden."""
        ...

    async def restore(self, knob: str, undo: Mapping[str, Any]) -> HostReading:
        """Put back what `read` saw; threads and processes that ended meanwhile are passed over."""
        ...
