"""A simulated node whose campaign over all lanes runs through the daemon's own cold lane, in the node's time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import select

from change.journal import Journal
from change.lock import EngineLock
from daemon.headless import START, node_gauges
from daemon.outer_tuning import OuterTuning
from daemon.simulated_cold import simulated_cold
from sim.cold_story import HONOURED
from sim.node import Node
from sim.scenario import SCENARIOS
from sim.server_arguments import settings_of
from sim.virtual_time import live
from store import open_store
from store.models import JournalEntry
from tuner.outer.messages import Measure
from tuner.outer.settings import OuterSettings
from tuner.settings import Objective, Slo, TuneSettings

Row = TypeVar("Row")
QUICK = TuneSettings(
    knobs=("max_prefill_tokens",), objective=Objective("throughput"), min_effect=0.15, minutes=60.0
)
SHORT = OuterSettings(
    4, stint_minutes=8.0, probation_minutes=8.0, allow=("pipeline_parallel_size", "tensor_parallel_size")
)


class Stand:
    """One node with a cold lane, one store and one campaign over all lanes that keeps its engine's lock."""

    def __init__(
        self,
        folder: Path,
        scenario: str = "guide-235b-plain",
        outer: OuterSettings = SHORT,
        *,
        mode: Any = "act",
        may_restart: Callable[[float], bool] = lambda _: True,
    ) -> None:
        self.node = Node(SCENARIOS[scenario], 7, START)
        self.node.advance(START + 30.0)
        self.store = open_store("sqlite:///:memory:")
        self.journal = Journal(self.store, "simulated")
        self.cold = simulated_cold(
            self.node, self.journal, lambda name: EngineLock(folder, name, "a restart")
        )
        self.boots: list[str] = []
        self._folder = folder
        self.lock = EngineLock(folder, self.node.control.boot_id, "a campaign")
        self.lock.acquire()
        self.tuning = OuterTuning(
            self.node.control,
            self.store,
            self.journal,
            lambda _: node_gauges(self.node),
            QUICK,
            outer,
            Slo(),
            self.cold.lane,
            engine="simulated",
            mode=mode,
            seed=5,
            timer=None,
            may_restart=may_restart,
            moving=lambda: self.lock.release(),
            moved=self._moved,
        )

    def _moved(self, boot_id: str) -> str | None:
        self.boots.append(boot_id)
        self.lock = EngineLock(self._folder, boot_id, "a campaign")
        self.lock.acquire()
        return None

    def until(self, done: Callable[[], bool]) -> None:
        """Live until something is so, or the campaign is over."""

        async def drive() -> None:
            while not (done() or self.tuning.done):
                await asyncio.sleep(1.0)
                await self.tuning.tick(self.node.now)

        live(self.node, drive())

    def restarts(self) -> list[tuple[str, str | None]]:
        """Kind and outcome of each restart so far."""
        return [(e.kind, e.outcome) for e in self.rows(JournalEntry) if e.lane == "cold"]

    def trial_is_measured(self) -> bool:
        mind = self.tuning.mind
        return mind is not None and mind.serving > 0 and isinstance(self.tuning._command, Measure)

    def promotion_is_measured(self) -> bool:
        mind = self.tuning.mind
        return mind is not None and mind.phase == "probation" and isinstance(self.tuning._command, Measure)

    def incumbents(self) -> bool:
        """Whether all of the engine is as the incumbent was, and so is its next start."""
        mind = self.tuning.mind
        assert mind is not None
        promoted = self.journal.promoted()
        values = self.node.control.read_state().values
        return (
            self.node.cold == HONOURED.launch == settings_of(self.cold.server.kept)
            and values == mind._hot
            # Its hot campaign found something, which is what is to come back after any later restart too.
            and promoted is not None
            and all(values[name] == value for name, value in promoted.values.items())
            and self.journal.open_entries() == self.journal.open_entries("cold") == []
        )

    def rows(self, table: type[Row]) -> list[Row]:
        with self.store.reading() as session:
            return list(session.scalars(select(table)))
