"""A cold lane over a simulated node in few words: what a driver sees of restarts, without the restart's own steps."""

from __future__ import annotations

from typing import Literal

from change.engine import Values
from change.restart.order import RestartResult
from change.server import Setting, Settings
from sim.node import Node

LOAD_SECONDS = 300.0
MOST_MEMORY = 0.91


class NodeLane:
    """`ColdLane` whose restart lets its node live until it serves again.

    `kinds` are those of its restarts; those in `refused` it does not begin.
    """

    def __init__(self, node: Node) -> None:
        assert node.scenario.cold is not None
        self._node = node
        self._side = node.scenario.cold
        self._good: dict[str, Setting] = dict(self._side.launch)
        self._asked = dict(self._good)
        self.kinds: list[str] = []
        self.refused: set[str] = set()

    async def settings(self) -> Settings:
        return dict(self._node.cold)

    async def problems(self, settings: Settings) -> list[str]:
        return self._side.problems(settings)

    async def restart(
        self,
        settings: Settings,
        *,
        actor: str,
        kind: Literal["trial", "promotion", "manual", "rollback"],
        campaign_id: int | None = None,
        hot: Values | None = None,
    ) -> RestartResult:
        asked = {**self._good, **settings}
        if kind in self.refused:
            return RestartResult("refused", "preflight", "an order was refused", dict(self._node.cold))
        if kind == "promotion" and asked == self._asked:
            self._good = asked
            return RestartResult("served", "open", "it serves already", dict(self._node.cold))
        self.kinds.append(kind)
        begun = self._node.now
        share = asked["gpu_memory_utilization"]
        failed = isinstance(share, float) and share > MOST_MEMORY
        self._start(self._good if failed else asked)
        lost = self._node.now - begun
        if failed:
            return RestartResult("returned", "load", "NPU out of memory", dict(self._node.cold), {}, lost)
        if kind != "trial":
            self._good = asked
        return RestartResult("served", "open", "it serves", dict(self._node.cold), {}, lost)

    def _start(self, asked: dict[str, Setting]) -> None:
        node, drained = self._node, self._node.now + 60.0
        while (node.running or node.waiting) and node.now < drained:
            node.control.set_gate("closed", lease_seconds=120.0, retry_after=5.0)
            node.advance(node.now + 1.0)
        flags = {name: float(asked[name]) for name in ("batch_max_tokens", "max_num_seqs")}
        node.restart(flags, down_seconds=LOAD_SECONDS, cold=self._side.effective(asked), patient=True)
        while node.control.down:
            node.advance(node.now + 1.0)
        self._asked = dict(asked)
