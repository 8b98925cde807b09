"""The simulated cold lane: restarts of a node's engine in virtual time, with the phases of a real one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from change.engine import Values
from change.restart.order import Phase, RestartResult
from change.server import Setting, Settings
from sim.cold import ColdSide
from sim.node import Node

DRAIN_SECONDS = 300.0
GATE_LEASE_SECONDS = 120.0
FLAGS = ("batch_max_tokens", "max_num_seqs")
"""Start-up settings that are hot values too: the launch value is the ceiling."""


class SimulatedColdLane:
    """`ColdLane` over a `Node`: the call lets the node live through the restart, and returns at its end."""

    def __init__(self, node: Node) -> None:
        """Over the node's own engine; raises `ValueError` if its scenario has no start-up settings."""
        if node.scenario.cold is None:
            raise ValueError(f"scenario {node.scenario.name} has no start-up settings to restart with")
        self._node = node
        self._side: ColdSide = node.scenario.cold
        self._asked: dict[str, Setting] = dict(self._side.launch)
        self._good: dict[str, Setting] = dict(self._side.launch)
        """What was asked of the last known good."""
        self.kinds: list[str] = []
        """The kind of each restart so far."""

    async def settings(self) -> Settings:
        """Return the effective settings of the engine that serves."""
        return dict(self._node.cold)

    async def problems(self, settings: Settings) -> list[str]:
        """Say why these can never start, as `sim.cold.ColdSide` knows it."""
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
        """Restart as the port says; a promotion of what serves already restarts nothing."""
        if problems := self._side.problems(settings):
            return RestartResult("refused", "preflight", "; ".join(problems))
        asked = {**self._good, **settings}
        if kind == "promotion" and asked == self._asked and self._node.control.down is False:
            self._good = asked
            return RestartResult("served", "open", "it serves already", dict(self._node.cold))
        self.kinds.append(kind)
        begun = self._node.now
        seconds: dict[Phase, float] = {"preflight": 0.0, "gate": 0.0, "drain": self._drain()}
        failure = self._failure(self._side.effective(asked))
        if failure is not None:
            seconds["load"] = self._start(self._good, self._load() * 1.5)
            return RestartResult(
                "returned", "load", failure, dict(self._node.cold), seconds, self._node.now - begun
            )
        seconds["load"] = self._start(asked, self._load())
        if kind in ("promotion", "manual", "rollback"):
            self._good = asked
        return RestartResult(
            "served", "open", "it serves", dict(self._node.cold), seconds, self._node.now - begun
        )

    def _drain(self) -> float:
        """Close the gate and let the requests inside finish."""
        node, begun = self._node, self._node.now
        while (node.running or node.waiting) and node.now - begun < DRAIN_SECONDS:
            node.control.set_gate("closed", lease_seconds=GATE_LEASE_SECONDS, retry_after=5.0)
            node.advance(node.now + 1.0)
        return node.now - begun

    def _start(self, asked: Settings, down_seconds: float) -> float:
        node, begun = self._node, self._node.now
        self._asked = dict(asked)
        flags = {name: float(asked[name]) for name in FLAGS if name in asked}
        node.restart(flags, down_seconds=down_seconds, cold=self._side.effective(asked), patient=True)
        while node.control.down:
            node.advance(node.now + 1.0)
        return node.now - begun

    def _load(self) -> float:
        starts = self._node.drawn.starts
        return 300.0 if starts is None else starts.load_seconds

    def _failure(self, asked: Mapping[str, Setting]) -> str | None:
        starts = self._node.drawn.starts
        most = math.inf if starts is None else starts.memory_share
        share = float(asked.get("gpu_memory_utilization", 0.0))
        if share <= most:
            return None
        return f"NPU out of memory while the weights were loaded: gpu_memory_utilization {share:g} leaves no room"
