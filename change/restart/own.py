"""Which holders of memory and port are the engine itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from change.restart.ports import Holder
from change.server import ProcessMark


@dataclass(frozen=True, slots=True)
class Own:
    """Who the engine is: its processes, and whether it runs somewhere that is not seen.

    An engine whose processes are not seen from here (a container's, a pod's) is taken for whoever is in its place:
    refusing every restart of it would help nobody, and the release names what stays.
    """

    family: frozenset[ProcessMark]
    unseen: bool

    @classmethod
    def of(cls, family: Sequence[ProcessMark], running: bool) -> Self:
        """The engine with these processes; one that runs without any is not seen."""
        return cls(frozenset(family), running and not family)

    def holds(self, holder: Holder) -> bool:
        """Whether a holder is the engine, or may be, as it is not seen itself."""
        if holder.mark is None:
            return self.unseen or bool(self.family)
        return self.unseen or holder.mark in self.family

    def surely_holds(self, holder: Holder) -> bool:
        """Whether a holder is one of the processes that are known as the engine's."""
        return holder.mark is not None and holder.mark in self.family
