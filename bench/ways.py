"""Ways to set an engine's limits while it runs: not at all, by the guide's formula, by the adaptive mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from change.engine import RequestRecord, Values
from sim.engine import Engine
from sim.scenario import CEILINGS, FLOORS
from tuner.batcher import Batcher, BatcherSettings, GoBack, Observation, Set

GUIDE_BYTES: Final = 7680
"""KV bytes of a token as the guide's formula has them."""
OWN_BYTES: Final = 94 * 2 * 4 * 128 * 2 // 4
"""Those of a model of the guide's size on one of four cards: 94 layers, keys and values of 4 heads of 128, 16 bit."""
GUIDE_MEMORY: Final = 32 * 1024**2
GUIDE_MOST: Final = 8
WINDOW: Final = 100
KEEP: Final = 0.9


def guide_batch(length: float, kv_bytes: int = GUIDE_BYTES) -> int:
    """The guide's batch for an average length in tokens, as it is written: 0 above 4,369 tokens."""
    return int(min(GUIDE_MEMORY / (length * kv_bytes), GUIDE_MOST))


class Way:
    """Leaves the limits as they are."""

    def __init__(self, values: Values) -> None:
        self.values = dict(values)
        self.changes = 0
        self.zeros = 0

    def tick(self, now: float, engine: Engine, records: Sequence[RequestRecord]) -> None:
        """Look at the engine and what finished since the last look, and set `values`."""


class Formula(Way):
    """The guide's formula: average length 0.9 old + 0.1 new over windows of 100 requests, whole lengths."""

    def __init__(self, values: Values, kv_bytes: int = GUIDE_BYTES) -> None:
        super().__init__({**values, "max_num_seqs": GUIDE_MOST})
        self._bytes = kv_bytes
        self._length: float | None = None
        self._window: list[int] = []

    def tick(self, now: float, engine: Engine, records: Sequence[RequestRecord]) -> None:
        """Set the batch from the average length; 0 serves one request at a time, as none is impossible."""
        self._window += [record.prompt_tokens + record.output_tokens for record in records]
        while len(self._window) >= WINDOW:
            new = sum(self._window[:WINDOW]) / WINDOW
            del self._window[:WINDOW]
            self._length = new if self._length is None else KEEP * self._length + (1 - KEEP) * new
            batch = self._batch(engine, self._length)
            self.zeros += batch == 0
            self.changes += batch != self.values["max_num_seqs"]
            self.values["max_num_seqs"] = max(batch, 1)

    def _batch(self, engine: Engine, length: float) -> int:
        return guide_batch(length, self._bytes)


class OwnMemory(Formula):
    """The formula's form over the KV memory that the engine has, without the 8: memory / (length x bytes)."""

    def __init__(self, values: Values) -> None:
        super().__init__(values, OWN_BYTES)

    def _batch(self, engine: Engine, length: float) -> int:
        memory = engine.physics.kv_blocks * engine.physics.block_tokens * OWN_BYTES
        return int(min(memory / (length * OWN_BYTES), CEILINGS["max_num_seqs"]))


class Adaptive(Way):
    """The adaptive mode around a promoted config."""

    def __init__(self, base: Values, settings: BatcherSettings | None = None) -> None:
        super().__init__(base)
        self._base = dict(base)
        self._mind = Batcher(settings)

    def tick(self, now: float, engine: Engine, records: Sequence[RequestRecord]) -> None:
        """Ask the mind once."""
        block = engine.physics.block_tokens
        floors = {**FLOORS, "batch_max_tokens": max(16.0, self.values["max_num_seqs"])}
        seen = Observation(
            base=self._base,
            values=dict(self.values),
            ceilings=CEILINGS,
            floors=floors,
            running=len(engine.running),
            waiting=len(engine.waiting),
            kv_free_tokens=engine.free_blocks * block,
            kv_tokens=engine.physics.kv_blocks * block,
            preemptions=engine.preemptions,
            records=tuple(records),
        )
        match self._mind.step(now, seen):
            case Set(values=values):
                self.values = {**self._base, **values}
                self.changes += 1
            case GoBack():
                self.values = dict(self._base)
                self.changes += 1
