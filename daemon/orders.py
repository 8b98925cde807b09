"""Changes a person orders: apply, roll back, detach; the same way with the daemon running and without it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from change import apply as changes
from change.engine import EngineControl
from change.journal import Journal
from change.lock import EngineLock
from store.models import JournalEntry


class Orders:
    """Carries out orders on one engine, through its journal and under its lock.

    Every order raises `ChangeRefused`, `LockError` or `JournalUnwritable` when nothing was done, and
    `EngineError` when the engine failed.
    """

    def __init__(self, control: EngineControl, journal: Journal, lock_dir: Path) -> None:
        self._control = control
        self._journal = journal
        self._lock_dir = lock_dir

    async def apply(self, values: Mapping[str, float], actor: str, now: float) -> dict[str, Any]:
        """Apply knob values for good."""
        lock = await self._lock(actor)
        entry = await changes.change(
            self._control, self._journal, values, kind="manual", actor=actor, now=now, lock=lock
        )
        return outcome(entry)

    async def rollback(self, n: int, actor: str, now: float) -> dict[str, Any]:
        """Take back the last `n` changes that stand."""
        lock = await self._lock(actor)
        return outcome(await changes.rollback(self._control, self._journal, n, now, actor=actor, lock=lock))

    async def detach(self, actor: str, now: float) -> dict[str, Any]:
        """Put the launch values back and forget what was promoted."""
        lock = await self._lock(actor)
        return outcome(await changes.detach(self._control, self._journal, now, actor=actor, lock=lock))

    async def _lock(self, actor: str) -> EngineLock:
        state = await self._control.state()
        return EngineLock(self._lock_dir, state.boot_id, f"an order of {actor}")


def outcome(entry: JournalEntry) -> dict[str, Any]:
    """What came of an order: `outcome` is `done`, or `undone` with the reason."""
    return {
        "entry": entry.id,
        "kind": entry.kind,
        "outcome": entry.outcome,
        "requested": dict(entry.change),
        "effective": None if entry.effective is None else dict(entry.effective),
        "reason": entry.reason,
    }
