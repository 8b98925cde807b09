"""Faults of the engine itself and of what is asked of it: it stands still, it is gone, too many come."""

from __future__ import annotations

from sim.faults.ailment import Ailment

CROWD_WAITING = 100


class Stall(Ailment):
    """A step never ends. The page goes on as it stood, requests that come wait unseen."""

    def begin(self) -> None:
        self._hung = False

    def live(self, seconds: float) -> None:
        if not self._hung and not self.node.control.down:
            self._hung = self.node.engine.hang()
            if self._hung:
                self.node.freeze_page()

    def restarted(self) -> None:
        self.node.thaw_page()

    def mended(self) -> bool:
        return self._hung and not self.node.page_frozen and not self.node.control.down


class DeadEngine(Ailment):
    """The engine's processes are killed."""

    def begin(self) -> None:
        self.node.die(patient=False)

    def mended(self) -> bool:
        return not self.node.control.down


class QueueSurge(Ailment):
    """More users than the batch holds."""

    def begin(self) -> None:
        self.node.set_users(round(self.fault.magnitude["users"]))

    def mended(self) -> bool:
        return self.node.waiting < CROWD_WAITING and not self.node.control.down
