"""What a restart needs to know of the ground it stands on, and of the engine that comes up.

Hands: `daemon.engine.ground` and `daemon.engine.probe`; `sim.server_ground` in the simulator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from change.server import ProcessMark, Settings


@dataclass(frozen=True, slots=True)
class Card:
    """The memory of one of the engine's cards, in bytes."""

    name: str
    total_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that holds device memory or the port; `mark` is None where it runs in a namespace not seen here."""

    name: str
    mark: ProcessMark | None
    held_bytes: int = 0
    card: str | None = None

    def __str__(self) -> str:
        who = f"{self.name} (pid {self.mark.pid})" if self.mark is not None else self.name
        return f"{who} on {self.card}" if self.card is not None else who


class Ground(Protocol):
    """The host below one engine. What cannot be known is empty or None, never a guess."""

    async def cards(self) -> Sequence[Card]:
        """Read the memory of the engine's own cards; empty where nobody can tell."""
        ...

    async def holders(self) -> Sequence[Holder]:
        """Say who holds memory on these cards, a row for each process and card."""
        ...

    async def port_holder(self) -> Holder | None:
        """Say who listens at the engine's port, or None if nobody does."""
        ...

    async def disk_free_bytes(self) -> int | None:
        """Return the room where logs and the store are written."""
        ...

    async def family(self, roots: Sequence[ProcessMark]) -> tuple[ProcessMark, ...]:
        """Return these processes with all their descendants of this moment, as far as they live."""
        ...

    async def living(self, marks: Sequence[ProcessMark]) -> tuple[ProcessMark, ...]:
        """Return those of `marks` that live still, told from reused numbers by their start time."""
        ...

    async def reap(self, marks: Sequence[ProcessMark]) -> None:
        """Kill these processes, each only if pid and start time are as they were; gone ones are passed over."""
        ...


class ProbeFailed(Exception):
    """The engine did not answer as it should; the text says how."""


class Probe(Protocol):
    """Asks one engine for work, past its gate: every call carries the plugin's token."""

    @property
    def has_golden(self) -> bool:
        """Whether there are golden prompts to ask."""
        ...

    async def healthy(self) -> bool:
        """Say whether the engine says it is well; False when nobody answers."""
        ...

    async def inside(self) -> int | None:
        """Count the requests that run or wait in the engine; None where it does not say."""
        ...

    async def one_token(self) -> None:
        """Ask for one token; raises `ProbeFailed`."""
        ...

    async def warm_up(self) -> None:
        """Send one request of the warm-up; raises `ProbeFailed`."""
        ...

    async def golden(self) -> list[str]:
        """Ask the golden prompts and say which answers differ from the expected tokens; raises `ProbeFailed`.

        Raises it too where there is no golden prompt: an unproved answer is not a good one.
        """
        ...

    async def effective(self, log: Sequence[str]) -> Settings:
        """Read the cold settings in force from the engine and the log of its start; unknown ones are absent."""
        ...
