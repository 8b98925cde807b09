"""What every fault of the simulated replica can do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.faults.draws import Fault

if TYPE_CHECKING:
    from sim.faults.node import TroubledNode


class Ailment:
    """A fault at work on one node. It begins once, and lasts until what mends it is done."""

    def __init__(self, fault: Fault, node: TroubledNode) -> None:
        self.fault = fault
        self.node = node

    def begin(self) -> None:
        """The onset."""

    def live(self, seconds: float) -> None:
        """Go on for `seconds` after the onset, once a second."""

    def restarted(self) -> None:
        """The engine's processes are new."""

    def start_breaks(self) -> tuple[str, ...]:
        """What the log says where the engine cannot start as it is set up now; nothing if it can."""
        return ()

    def mended(self) -> bool:
        """Whether nothing of it is felt any more."""
        raise NotImplementedError
