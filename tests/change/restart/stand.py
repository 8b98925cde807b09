"""A simulated engine with everything a restart needs, in the node's own time."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from change.journal import Journal
from change.restart.memory import MemoryPlan
from change.restart.order import RestartOrder, RestartResult
from change.restart.parts import Judges, Parts
from change.restart.restart import Restart
from change.restart.settings import RestartSettings
from change.server import LaunchCommand, Settings
from sim.node import Node
from sim.server_arguments import LAUNCH, BadFlag, render, settings_of
from sim.server_ground import SimulatedGround, SimulatedProbe
from sim.server_hand import SimulatedServer
from sim.virtual_time import NodeClock, live
from store import open_store
from store.models import JournalEntry

T = TypeVar("T")
START = 1_700_000_000.0
GIB = 1024**3


def sign(line: str) -> str | None:
    """A log signature, as the collectors would name it."""
    return "npu_out_of_memory" if "NPU out of memory" in line else None


def read(command: LaunchCommand) -> Settings:
    """The settings of a command; of one the engine would refuse, none."""
    try:
        return settings_of(command)
    except BadFlag:
        return {}


async def plan(command: LaunchCommand) -> MemoryPlan:
    """A model of 18 GiB on each card, less with more cards."""
    found = read(command)
    cards = int(found.get("tensor_parallel_size", 4))
    return MemoryPlan(float(found.get("gpu_memory_utilization", 0.9)), 72 * GIB // cards, 2 * GIB)


@dataclass
class Stand:
    """One node under steady traffic whose clients honour Retry-After and retry refused connections."""

    seed: int = 101
    scenario: str = "default"
    said: list[str] = field(default_factory=list)
    alerts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.node = Node(self.scenario, self.seed, START)
        self.clock = NodeClock(self.node)
        self.server = SimulatedServer(self.node, self.clock)
        self.ground = SimulatedGround(self.server)
        self.probe = SimulatedProbe(self.server, self.clock)
        self.store = open_store("sqlite:///:memory:")
        self.journal = Journal(self.store, "http://127.0.0.1:8000")
        self.parts = Parts(
            self.server,
            self.node.control,
            self.ground,
            self.probe,
            self.clock,
            self.journal,
            settings=RestartSettings(step_seconds={"weights": 60.0}, watch_seconds=5.0),
            judges=Judges(plan=plan, classify=sign, watch=self.probe.watch, settings=read),
            say=self.said.append,
            alert=self.alerts.append,
        )
        self.node.advance(START + 20.0)

    def live(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something in the node's time."""
        return live(self.node, work)

    def judge(self, **judges: Any) -> None:
        """Have something else decided otherwise."""
        self.parts = replace(self.parts, judges=replace(self.parts.judges, **judges))

    def order(self, kind: Any = "manual", **settings: Any) -> RestartOrder:
        """An order over the command of now."""
        return RestartOrder(settings, render(self.server.run.command, settings), "operator", kind)

    def restart(self, kind: Any = "manual", **settings: Any) -> RestartResult:
        """Restart with settings."""
        return self.live(Restart(self.parts, self.order(kind, **settings)).run())

    def somebody_starts(self, **settings: Any) -> LaunchCommand:
        """End what runs and start another model without Trimtab, with these flags and no key; the command."""
        command = LaunchCommand(("vllm", "serve", "/models/new", "--port", "8000"))
        command = render(command, {**settings_of(LAUNCH), **settings})

        async def start() -> None:
            await self.server.stop(grace_seconds=60.0)
            await self.server.start(command)
            await self.clock.sleep(60.0)

        self.live(start())
        return command

    def entries(self) -> list[JournalEntry]:
        """The cold entries, oldest first."""
        return [entry for entry in reversed(self.journal.last(100)) if entry.lane == "cold"]

    def serves(self, **settings: Any) -> bool:
        """Whether an engine with these settings serves, its gate open and nothing left half done."""
        state = self.node.control.read_state()
        return (
            self.server.serving
            and state.gate == "open"
            and all(self.server.effective[name] == value for name, value in settings.items())
            and not self.server.two_at_once
        )
