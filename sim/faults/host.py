"""A host that may fall ill: interrupts that storm, cores that are put to sleep, threads far from their cards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from change.choices import Options
from change.host_knobs import AS_FOUND
from sim.faults.ailment import Ailment
from sim.physics import Physics

NODES, CPUS_PER_NODE = 4, 48
NEAR_NODE, FAR_NODE = 0, 2
"""Where the cards are, and where the threads go that are led astray."""
CPUS = NODES * CPUS_PER_NODE
USUAL_GOVERNOR = "performance"
SECONDS_PER_INTERRUPT = 0.3e-6
"""By which each interrupt in a second makes a step longer whose threads are on the cores that take them."""
FULL_HOST_SECONDS = 0.008
"""The host's part of a step at full clock."""


@dataclass(slots=True)
class TroubledHost:
    """What of a host makes its engine wait: `sim.host_hand.Story`, changed by the faults below as they come."""

    storm_per_second: float = 0.0
    asleep_share: float = 0.0
    """CPUs under a governor that clocks them down."""
    sleep_factor: float = 0.0
    astray_share: float = 0.0
    """Threads that run on another node than their cards'."""
    astray_seconds: float = 0.0

    @property
    def options(self) -> Options:
        """See `Story`."""
        nodes = range(NODES)
        return {
            "placement": (AS_FOUND, *(f"split:{n}" for n in nodes), *(f"whole:{n}" for n in nodes)),
            "memory": (AS_FOUND, *(f"node:{n}" for n in nodes)),
            "shared_memory": (AS_FOUND, *(f"node:{n}" for n in nodes)),
            "cpu_governor": (USUAL_GOVERNOR, "powersave", "ondemand", "conservative", "schedutil"),
            "irq_placement": (AS_FOUND, "off_compute"),
            "numa_balancing": ("0", "1"),
        }

    def storming(self, values: Mapping[str, str]) -> float:
        """Interrupts in a second that reach the compute threads' cores from elsewhere."""
        return 0.0 if values["irq_placement"] == "off_compute" else self.storm_per_second

    def asleep(self, values: Mapping[str, str]) -> float:
        """Share of the CPUs that are clocked down."""
        return 0.0 if values["cpu_governor"] == USUAL_GOVERNOR else self.asleep_share

    def astray(self, values: Mapping[str, str]) -> float:
        """Share of the threads that run far from the cards."""
        place = values["placement"].partition(":")[2]
        if place:
            return 0.0 if int(place) == NEAR_NODE else 1.0
        return self.astray_share

    def physics(self, physics: Physics, values: Mapping[str, str]) -> Physics:
        """See `Story`."""
        waits = SECONDS_PER_INTERRUPT * self.storming(values)
        waits += FULL_HOST_SECONDS * self.sleep_factor * self.asleep(values)
        waits += self.astray_seconds * self.astray(values)
        return replace(physics, overhead_seconds=physics.overhead_seconds + waits)

    def noise(self, values: Mapping[str, str]) -> float:
        """See `Story`."""
        return 1.0 + min(1.0, self.storming(values) / 30000.0)

    def computing(self, values: Mapping[str, str]) -> float:
        """See `Story`; here the node counts it itself."""
        return 1.0


class IrqStorm(Ailment):
    """A device floods cores of another node, the compute threads' own, with interrupts."""

    def begin(self) -> None:
        self.node.troubled.storm_per_second = self.fault.magnitude["per_second"]
        self.node.recost()

    def mended(self) -> bool:
        return self.node.troubled.storming(self.node.tended.values) == 0.0


class Governor(Ailment):
    """Somebody's power saving puts cores under another governor."""

    def begin(self) -> None:
        self.node.troubled.asleep_share = self.fault.magnitude["cpus_share"]
        self.node.troubled.sleep_factor = self.fault.magnitude["slower"]
        self.node.tended.values["cpu_governor"] = self.fault.variant
        self.node.recost()

    def mended(self) -> bool:
        return self.node.troubled.asleep(self.node.tended.values) == 0.0


class Numa(Ailment):
    """The engine's threads are led to cores of a node that is not their cards'."""

    def begin(self) -> None:
        self.node.troubled.astray_share = self.fault.magnitude["threads_share"]
        self.node.troubled.astray_seconds = self.fault.magnitude["seconds"]
        self.node.recost()

    def mended(self) -> bool:
        return self.node.troubled.astray(self.node.tended.values) < 0.2
