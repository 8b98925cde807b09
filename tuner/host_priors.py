"""What the field's guide for a 32B model on four cards did to the host: tried early, never trusted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from change.choices import UNLISTED, number
from change.engine import Values
from tuner.space import Space

GUIDE = "the 32B guide"
CALM: Mapping[str, str] = {
    "transparent_hugepages": "never",
    "khugepaged_defrag": "0",
    "cpu_governor": "performance",
    "irq_placement": "off_compute",
    "numa_balancing": "0",
}
"""What is done to the whole node, whatever the topology."""


def host_priors(space: Space) -> Iterator[tuple[str, Values]]:
    """The guide's steps for each node that the threads could be on, cores and memory always on the same one.

    Which node is the best is not known beforehand: the one nearest to the cards may be full.
    """
    texts = space.options.get("placement", ())
    nodes = [text.partition(":")[2] for text in texts if text.startswith("split:")]
    for node in nodes:
        bound = {"placement": f"split:{node}", "memory": f"node:{node}"}
        whole = {**bound, "shared_memory": f"node:{node}", **CALM}
        for what, wanted in (("final state", whole), ("NUMA binding", bound)):
            if values := _known(space, wanted):
                yield f"{GUIDE}'s {what} on node {node}", values
    if values := _known(space, CALM):
        yield f"{GUIDE}'s settings of the node alone", values


def _known(space: Space, wanted: Mapping[str, str]) -> dict[str, float]:
    """The places of the texts that are there to be tried."""
    searched = {axis.name for axis in space.dimensions if axis.choice}
    places = {name: number(text, space.options[name]) for name, text in wanted.items() if name in searched}
    return {name: place for name, place in places.items() if place != UNLISTED}
