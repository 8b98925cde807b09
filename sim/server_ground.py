"""The ground below the simulated hand, and the probe of its engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from change.clock import Clock
from change.restart.ports import Card, Holder, ProbeFailed
from change.server import ProcessMark, Settings
from sim.node import CARDS
from sim.server_hand import SimulatedServer

CARD_BYTES = 32 * 1024**3
_ANSWER_SECONDS = 0.4
_HANGS_SECONDS = 3600.0


@dataclass
class SimulatedGround:
    """`Ground` of one node: the engine's worker holds its share of each card as long as it lives.

    `strangers` are other holders, by card; `port_taken_by` is who listens at the port beside the engine.
    """

    server: SimulatedServer
    strangers: list[Holder] = field(default_factory=list)
    port_taken_by: Holder | None = None
    disk_bytes: int = 200 * 1024**3
    reaped: list[ProcessMark] = field(default_factory=list)

    async def cards(self) -> Sequence[Card]:
        """Read the cards' memory."""
        holders = await self.holders()
        return [
            Card(name, CARD_BYTES, CARD_BYTES - sum(h.held_bytes for h in holders if h.card == name))
            for name in self._names()
        ]

    async def holders(self) -> Sequence[Holder]:
        """Say who holds memory."""
        share = float(self.server.effective.get("gpu_memory_utilization", 0.9))
        return [
            *self.strangers,
            *(
                Holder("VLLM::EngineCore", mark, int(share * CARD_BYTES), name)
                for mark, what in self.server.alive.items()
                if what == "EngineCore"
                for name in self._names()
            ),
        ]

    async def port_holder(self) -> Holder | None:
        """Say who listens."""
        if self.port_taken_by is not None:
            return self.port_taken_by
        for mark, what in self.server.alive.items():
            if what == "APIServer":
                return Holder("vllm", mark)
        return None

    async def disk_free_bytes(self) -> int | None:
        """Return the free disk."""
        return self.disk_bytes

    async def family(self, roots: Sequence[ProcessMark]) -> tuple[ProcessMark, ...]:
        """Return the engine's processes if one of them is asked for."""
        if any(mark in self.server.run.processes for mark in roots):
            return tuple(mark for mark in self.server.run.processes if mark in self.server.alive)
        return await self.living(roots)

    async def living(self, marks: Sequence[ProcessMark]) -> tuple[ProcessMark, ...]:
        """Return those that live."""
        return tuple(mark for mark in marks if mark in self.server.alive)

    async def reap(self, marks: Sequence[ProcessMark]) -> None:
        """Kill these."""
        self.reaped += [mark for mark in marks if mark in self.server.alive]
        self.server.reap(marks)

    def _names(self) -> list[str]:
        return [f"NPU {number}" for number in range(CARDS)]


@dataclass
class SimulatedProbe:
    """`Probe` of the simulated engine."""

    server: SimulatedServer
    clock: Clock
    has_golden: bool = True

    async def healthy(self) -> bool:
        """Whether it answers."""
        return self.server.serving

    async def inside(self) -> int | None:
        """Count the requests inside."""
        node = self.server.node
        return node.running + node.waiting if self.server.serving else None

    async def one_token(self) -> None:
        """Ask for one token."""
        await self._answer("probe")

    async def warm_up(self) -> None:
        """Send one request."""
        await self._answer("probe")

    async def golden(self) -> list[str]:
        """Ask the golden prompts."""
        await self._answer("probe")
        return ["prompt 1: ' Paris' expected, ' the' came"] if self.server.run.fault == "golden" else []

    async def effective(self, log: Sequence[str]) -> Settings:
        """Read what is in force."""
        return dict(self.server.effective)

    async def watch(self) -> str | None:
        """Whether its users are served well."""
        return "40% of the requests broke ttft_p90_seconds" if self.server.run.fault == "slo" else None

    async def _answer(self, breaks: str) -> None:
        if not self.server.serving:
            raise ProbeFailed("connection refused")
        await self.clock.sleep(_HANGS_SECONDS if self.server.run.fault == breaks else _ANSWER_SECONDS)
