"""Changes a person orders: apply, roll back, detach; the same way with the daemon running and without it."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from change import apply as changes
from change.catalogue.index import HOT_KNOBS
from change.catalogue.knob import Lane
from change.engine import EngineControl, EngineError, EngineUnreachable
from change.journal import Journal
from change.lock import EngineLock, LockError
from change.server import Setting, Settings
from change.steps import ChangeRefused
from change.undo import Undo, roll_back
from daemon.cold import Cold, refused
from daemon.host_lane import HostLane
from store import StoreError
from store.models import JournalEntry

STOPPED = "stopped"
"""The outcome of an order whose first steps were made, and a later one was not begun or failed."""


class Orders:
    """Carries out orders on one engine, through its journal and under its lock.

    Every order raises `ChangeRefused`, `LockError` or `JournalUnwritable` when nothing was done, and
    `EngineError` when the engine failed. One of several steps that fails so after the first says what was done instead:
    its `outcome` is `stopped`, its `reason` why.
    """

    def __init__(
        self,
        control: EngineControl,
        journal: Journal,
        lock_dir: Path,
        *,
        cold: Cold | None = None,
        host: HostLane | None = None,
    ) -> None:
        """`cold` restarts the engine, where a hand for that is configured; `host` takes back what it changed."""
        self._control = control
        self._journal = journal
        self._lock_dir = lock_dir
        self._cold = cold
        self._host = host
        self._undo: dict[Lane, Undo] = {"hot": self._undo_hot}
        if host is not None:
            self._undo["host"] = host.undo
        if cold is not None:
            self._undo["cold"] = cold.undo

    async def apply(
        self, values: Settings, actor: str, now: float, *, restart: bool = False
    ) -> dict[str, Any]:
        """Apply knob values for good; those that need a restart only with `restart`, and before the others.

        `restart` has the outcome of the restart, if there are others.
        """
        hot, cold = await self._lanes(values, restart)
        restarted: dict[str, Any] | None = None
        if cold:
            restarted = await self._restart(cold, actor)
            if not hot or restarted["outcome"] != "done":
                return restarted
        try:
            lock = await self._lock(actor)
            entry = await changes.change(
                self._control, self._journal, hot, kind="manual", actor=actor, now=now, lock=lock
            )
        except (ChangeRefused, EngineError, LockError, StoreError) as error:
            if restarted is None:
                raise
            reason = f"the engine was restarted, but {', '.join(hot)} could not be set: {error}"
            return restarted | {"outcome": STOPPED, "reason": reason, "restart": restarted}
        return outcome(entry) | ({} if restarted is None else {"restart": restarted})

    async def rollback(self, n: int, actor: str, now: float) -> dict[str, Any]:
        """Take back the last `n` changes that stand, of whichever lane; `rollbacks` has the outcome of each step."""
        try:
            state = await self._control.state()
        except EngineUnreachable:
            if self._cold is None:
                raise
            boot_id = ""  # what was changed inside an engine that is gone went with it
        else:
            boot_id = state.boot_id
            self._journal.note_launch(state, now)
        # What a step takes is not known beforehand: those after a restart are written later than `now`.
        begun = time.monotonic()
        done, stopped = await roll_back(
            self._journal,
            boot_id,
            n,
            self._undo,
            actor=actor,
            now=lambda: now + time.monotonic() - begun,
            host_boot_id=None if self._host is None else self._host.boot_id(),
        )
        steps = [outcome(entry) for entry in done]
        if stopped is not None:
            return steps[-1] | {"outcome": STOPPED, "reason": stopped, "rollbacks": steps}
        return steps[-1] if len(steps) == 1 else steps[-1] | {"rollbacks": steps}

    async def _undo_hot(self, entries: Sequence[JournalEntry], actor: str, now: float) -> JournalEntry:
        lock = await self._lock(actor)
        return await changes.rollback(self._control, self._journal, len(entries), now, actor=actor, lock=lock)

    async def _restart(self, settings: Settings, actor: str) -> dict[str, Any]:
        assert self._cold is not None
        result = await self._cold.restart(settings, actor=actor, kind="manual")
        if result.outcome == "refused" or result.entry_id is None:
            raise refused(result)
        return outcome(self._journal.entry(result.entry_id)) | {
            "requested": dict(settings),
            "effective": dict(result.effective) or None,
            "reason": result.reason,
            "phase": result.phase,
            "down_seconds": round(result.down_seconds, 3),
            "own_seconds": round(result.own_seconds, 3),
        }

    async def _lanes(self, values: Settings, restart: bool) -> tuple[dict[str, float], dict[str, Setting]]:
        """Tell what can be set in the running engine from what needs a restart."""
        hot: dict[str, float] = {}
        cold: dict[str, Setting] = {}
        known: Mapping[str, float] = {}
        try:
            state = await self._control.state()
            # A ceiling is the flag itself: to go beyond it is a restart.
            known = {name: state.ceilings.get(name, math.inf) for name in state.values}
        except EngineError:
            if not restart:
                raise
        for name, value in values.items():
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if number and (not restart or (name in known and float(value) <= known[name])):
                hot[name] = float(value)
            else:
                cold[name] = value
        other = [*cold, *(name for name in hot if name not in known and name not in HOT_KNOBS)]
        if not restart and other and (cold or self._cold is not None):
            names = ", ".join(other)
            raise ChangeRefused(
                f"{names}: needs a restart of the engine, in which its users wait: say --restart"
            )
        if cold and self._cold is None:
            raise ChangeRefused("no hand is configured that could restart the engine: set engine.server.hand")
        return hot, cold

    async def detach(self, actor: str, now: float) -> dict[str, Any]:
        """Put the launch values back and forget what was promoted."""
        lock = await self._lock(actor)
        return outcome(await changes.detach(self._control, self._journal, now, actor=actor, lock=lock))

    async def _lock(self, actor: str) -> EngineLock:
        state = await self._control.state()
        return EngineLock(self._lock_dir, state.boot_id, f"an order of {actor}")


def outcome(entry: JournalEntry) -> dict[str, Any]:
    """What came of an order: `outcome` is `done`, or `undone` with the reason.

    Of a restart the settings are told and not the whole command, and for how long users waited.
    """
    told = {
        "entry": entry.id,
        "lane": entry.lane,
        "kind": entry.kind,
        "outcome": entry.outcome,
        "requested": dict(entry.change),
        "effective": None if entry.effective is None else dict(entry.effective),
        "reason": entry.reason,
    }
    if entry.lane != "cold":
        return told
    known = entry.effective or {}
    return told | {
        "requested": dict(entry.change["settings"]),
        "effective": known.get("settings"),
        "down_seconds": known.get("down_seconds"),
    }
