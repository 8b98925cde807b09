"""A host that makes the engine wait: what each knob of the host lane is truly worth to a 32B model on four cards.

The field's guide gives the time to the first token, mean and 99th percentile in ms, and the share of it in which the
NPUs compute: 250, 273, 72% as found; 247, 268, 75% with control and compute threads apart; 230, 245, 83% with cores and
memory on the node that has room; 223, 238, 87% with shared memory off the full node, huge pages never, the kernel's
collector of them still, the governor at performance and interrupts off the compute cores. Binding whole processes gave
3 ms. Each seed draws its own figures around these; a tuner sees none of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from change.choices import Options
from change.host_knobs import AS_FOUND
from sim.physics import Physics

PREFILL_SHARE, STEP_SHARE = 0.93, 0.05
"""Of the seconds that a knob takes from the time to the first token: those of a step with prefill, and those of each
step, half of which an arrival waits for besides."""
FIRST_TOKEN_SECONDS = 0.25
BUSY_AS_FOUND, BUSY_PER_SECOND = 0.72, 5.55
"""The share in which the NPUs compute while the engine is busy, and how it grows with the seconds that are saved."""


@dataclass(frozen=True, slots=True)
class Topology:
    """Where the cards are and how much memory is free: NUMA nodes of each card, GiB by node."""

    cards: tuple[int, ...]
    free_gib: tuple[tuple[int, float], ...]

    @property
    def nodes(self) -> tuple[int, ...]:
        """Nodes worth a trial: those of the cards, then the one with most room."""
        return tuple(dict.fromkeys((*self.cards, self.roomiest)))

    def share(self, node: int) -> float:
        """Share of the cards that are at a node, 0 to 1."""
        return self.cards.count(node) / len(self.cards)

    @property
    def roomiest(self) -> int:
        """The node with most free memory."""
        return max(self.free_gib, key=lambda item: item[1])[0]


NEAREST_FULL = Topology((6, 6, 6, 6), ((6, 3.0), (4, 28.0)))
"""All cards at node 6, which is full."""
TWO_NODES = Topology((6, 6, 4, 4), ((6, 3.0), (4, 28.0)))
"""Cards 0 and 1 at node 6, which is full, 2 and 3 at node 4, which has room."""


@dataclass(frozen=True, slots=True)
class HostStory:
    """One seed's host: seconds of the time to the first token that each change saves."""

    topology: Topology
    near: float
    """Threads bound to the node of all cards; half of it where half of the cards are."""
    whole: float
    """Whole processes bound to a node."""
    split: float
    """Control and compute threads apart on a node, the memory elsewhere."""
    moved: float
    """Memory on the roomy node without its threads."""
    together: float
    """Threads apart and memory, both on the roomy node."""
    shared_memory: float
    never: float
    """Transparent huge pages never; `madvise` is half of it."""
    khugepaged: float
    governor: float
    interrupts: float

    @property
    def options(self) -> Options:
        """The knobs with the values worth a trial, what was found first."""
        nodes, room = self.topology.nodes, f"node:{self.topology.roomiest}"
        return {
            "placement": (
                AS_FOUND,
                *(f"split:{node}" for node in nodes),
                *(f"whole:{node}" for node in nodes),
            ),
            "memory": (AS_FOUND, room),
            "shared_memory": (AS_FOUND, room),
            "transparent_hugepages": ("always", "madvise", "never"),
            "khugepaged_defrag": ("1", "0"),
            "cpu_governor": ("ondemand", "performance"),
            "irq_placement": (AS_FOUND, "off_compute"),
        }

    def saved(self, values: Mapping[str, str]) -> float:
        """Seconds less to the first token than as found."""
        how, _, node = values["placement"].partition(":")
        moved = values["memory"] != AS_FOUND
        together = moved and values["memory"].partition(":")[2] == node
        saved = {"split": self.split, "whole": self.whole}.get(how, 0.0)
        if how in ("split", "whole"):
            saved += self.near * self.topology.share(int(node))
        if how == "split" and together:
            saved += self.together - self.split
        elif moved and how != "split":
            saved += self.moved
        saved += self.shared_memory * (values["shared_memory"] != AS_FOUND)
        saved += self.never * {"never": 1.0, "madvise": 0.5}.get(values["transparent_hugepages"], 0.0)
        saved += self.khugepaged * (values["khugepaged_defrag"] == "0")
        saved += self.governor * (values["cpu_governor"] == "performance")
        # Without compute threads of their own cores there is nothing to keep interrupts off.
        return saved + self.interrupts * (values["irq_placement"] != AS_FOUND and how == "split")

    def physics(self, physics: Physics, values: Mapping[str, str]) -> Physics:
        """The engine's step costs with the host as `values` say."""
        saved = self.saved(values)
        return replace(
            physics,
            overhead_seconds=physics.overhead_seconds - STEP_SHARE * saved,
            eager_seconds=physics.eager_seconds - PREFILL_SHARE * saved,
        )

    def noise(self, values: Mapping[str, str]) -> float:
        """How restless steps are beside the host as found (1): waiting for a full node is most of it."""
        return max(0.5, 1.0 - 16.0 * self.saved(values))

    def computing(self, values: Mapping[str, str]) -> float:
        """Share of the engine's busy time in which the NPUs compute, 0 to 1."""
        return min(1.0, BUSY_AS_FOUND + BUSY_PER_SECOND * self.saved(values))


def draw_host(rng: np.random.Generator, topology: Topology) -> HostStory:
    """The guide's figures, each a little otherwise."""

    def about(seconds: float, spread: float) -> float:
        return float(seconds * rng.uniform(1.0 - spread, 1.0 + spread))

    return HostStory(
        topology,
        near=about(0.0014, 0.3),
        whole=about(0.0016, 0.3),
        split=about(0.0017, 0.3),
        moved=about(0.0015, 0.3),
        together=about(0.0195, 0.06),
        shared_memory=about(0.0021, 0.25),
        never=about(0.0016, 0.25),
        khugepaged=about(0.0006, 0.25),
        governor=about(0.0018, 0.25),
        interrupts=about(0.0009, 0.25),
    )


def draw_32b(rng: np.random.Generator) -> Physics:
    """A dense 32B model in FP16 over four cards: each reads a quarter of the weights a step, prompts cost compute."""
    return Physics(
        overhead_seconds=0.004,
        weight_read_seconds=rng.uniform(0.0135, 0.0145),
        token_seconds=rng.uniform(166e-6, 171e-6),
        roofline_sharpness=4.0,
        kv_read_seconds=0.05e-6,
        attention_seconds=3e-9,
        thrash_knee_tokens=8192.0,
        thrash_seconds=0.0,
        thrash_sharpness=8.0,
        spill_seconds=0.0,
        # What the host takes to launch the kernels of a step with prefill, for which there is no graph.
        eager_seconds=rng.uniform(0.060, 0.064),
        sequence_seconds=20e-6,
        batch_knee=64.0,
        crowd_seconds=0.0,
        kv_blocks=4096,
        jitter=0.018,
        drift=0.015,
        weather=0.018,
    )
