"""A simulated engine with the lanes a playbook acts through, in the node's own time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from change.lock import EngineLock
from collectors.history import History
from collectors.sample import Sample, labels
from daemon.acting.condition import NOTE_SECONDS, EngineCondition
from daemon.acting.deed import Deed, RunContext
from daemon.acting.hot import ExpandBatch, HotValues
from daemon.cold import Cold
from daemon.notices import Notices
from rules.actions import Action, ActionKind, Outcome, Plan
from tests.change.restart.stand import Stand
from tests.daemon.test_cold import PlainCatalogue

LOAD_SECONDS = 600.0
RUN = RunContext("run-12", "npu_out_of_memory")


class HandStand:
    """One engine, its journal and its locks."""

    def __init__(self, folder: Path) -> None:
        self.stand = Stand()
        self.locks = folder / "locks"
        self.history = History()
        self.notices = Notices(self.stand.clock.now)
        self.stand.parts = replace(
            self.stand.parts, lock=lambda boot_id: EngineLock(self.locks, boot_id, "a restart")
        )
        self.cold = Cold(self.stand.parts, PlainCatalogue(), self.notices)
        self.condition = EngineCondition(
            self.cold,
            self.stand.node.control,
            self.history,
            load_seconds=LOAD_SECONDS,
            timer=self.stand.clock.now,
        )
        self.hot = HotValues(self.stand.node.control, self.stand.journal, self.locks)
        self.expand = ExpandBatch(self.hot, self.stand.journal, self.history)

    @property
    def now(self) -> float:
        return self.stand.clock.now()

    def values(self) -> dict[str, float]:
        return dict(self.stand.node.control.read_state().values)

    def page_answers(self) -> None:
        """The engine's page was read for a while, and the run that is there is known for it."""

        async def story() -> None:
            for _ in range(3):
                read = Sample("trimtab_collector_success", 1.0, self.now, labels(collector="vllm"))
                self.history.add([read], "vllm")
                await self.condition.tick(self.now)
                await asyncio.sleep(NOTE_SECONDS)

        self.stand.live(story())

    def plan(
        self, deed: Deed, kind: ActionKind, context: RunContext = RUN, **arguments: Any
    ) -> tuple[Action, Plan]:
        action = Action(kind, arguments)
        return action, self.stand.live(deed.plan(action, context, self.now))

    def do(
        self, deed: Deed, kind: ActionKind, context: RunContext = RUN, **arguments: Any
    ) -> tuple[Plan, Outcome]:
        """Plan and make it."""
        action, plan = self.plan(deed, kind, context, **arguments)
        return plan, self.stand.live(deed.act(action, plan, context, self.now))

    def undo(self, deed: Deed, undo: Mapping[str, Any] | None, context: RunContext = RUN) -> Outcome:
        assert undo is not None
        return self.stand.live(deed.undo(undo, context, self.now))

    def read_kv(self, usage: float) -> None:
        """The KV cache's use as a collector would have read it just now."""
        own = labels(engine="0", model_name="m")
        self.history.add([Sample("trimtab_engine_kv_cache_usage_ratio", usage, self.now, own)], "vllm")
