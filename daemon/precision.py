"""The switch between precisions kept ready: traffic weights by the operator's programs, through journal and lock."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from change.journal import Journal
from change.server import ServerError
from change.steps import ChangeRefused
from daemon.engine.program import run_program
from daemon.sections.precision import PrecisionSection, Weight
from store.models import JournalEntry

BALANCER = "weights"
"""Weights belong to no boot of any engine: they stand until they are changed."""
CLOSE = 1e-6

Weights = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Serving:
    """The weights in force, and the precision they are, None for one of no name."""

    name: str | None
    weights: Weights


class _Looked(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)

    weights: dict[str, Weight]


class PrecisionSwitch:
    """Changes the weights; every call raises `ServerError` for a program that does not do its part."""

    def __init__(
        self, section: PrecisionSection, journal: Journal, lock: Callable[[], AbstractContextManager[object]]
    ) -> None:
        """`journal` is the balancer's own; `lock` holds the right to change its weights."""
        self._section = section
        self._journal = journal
        self._lock = lock

    async def show(self) -> Serving:
        """Return what is in force."""
        weights = await self._look()
        named = [name for name, kept in self._section.kept.items() if _equal(kept, weights)]
        return Serving(named[0] if named else None, weights)

    async def switch(self, name: str, actor: str, now: float) -> JournalEntry:
        """Put a precision's weights in force; the entry's outcome is `undone` where they did not hold.

        Raises `ChangeRefused` for a name that is not kept, `LockError` where somebody else is at it.
        """
        if name not in self._section.kept:
            known = ", ".join(self._section.kept) or "none"
            raise ChangeRefused(f"no precision {name!r} is kept ready (precision.kept): {known}")
        with self._lock():
            await self._recover(now)
            return await self._change("manual", self._section.kept[name], actor, now)

    async def back(self, actor: str, now: float) -> JournalEntry:
        """Put the weights back that were in force before the last switch that stands.

        Raises `ChangeRefused` where none does, `LockError` where somebody else is at it.
        """
        with self._lock():
            await self._recover(now)
            standing = self._journal.standing(BALANCER)
            if not standing:
                raise ChangeRefused("no switch stands: there is nothing to take back")
            last = standing[-1]
            return await self._change("rollback", last.undo, actor, now, undoes=(last.id,))

    async def _change(
        self, kind: Any, weights: Weights, actor: str, now: float, undoes: tuple[int, ...] = ()
    ) -> JournalEntry:
        before = await self._look()
        entry = self._journal.open(kind, BALANCER, actor, weights, before, now, undoes=undoes)
        reason = None
        try:
            await self._set(weights)
            self._journal.mark(entry, "applied", now)
            held = await self._look()
            if not _equal(weights, held):
                reason = f"the balancer has {_words(held)}"
        except ServerError as error:
            reason = str(error)
        if reason is None:
            self._journal.mark(entry, "verified", now, weights)
            self._journal.close(entry, "done", now)
        else:
            # An entry whose way back fails stays open: it is taken back before the next switch.
            await self._set(before)
            self._journal.close(entry, "undone", now, f"{reason}; the weights before are back")
        return self._journal.entry(entry)

    async def _recover(self, now: float) -> None:
        """Take back what a process that died left half done, newest first."""
        for entry in reversed(self._journal.open_entries()):
            await self._set(entry.undo)
            self._journal.close(entry.id, "recovered", now, f"left {entry.state} by a crash: taken back")

    async def _look(self) -> dict[str, float]:
        said = await self._run(self._section.look, {"version": 1, "action": "look"})
        try:
            return _Looked.model_validate_json(said).weights
        except ValidationError as error:
            raise ServerError(
                f"{self._section.look[0]}: what it prints is not understood: expected"
                ' {"weights": {"REPLICA": NUMBER}}'
            ) from error

    async def _set(self, weights: Weights) -> None:
        await self._run(self._section.set, {"version": 1, "action": "set", "weights": dict(weights)})

    async def _run(self, argv: list[str], given: dict[str, Any]) -> str:
        line = json.dumps(given).encode() + b"\n"
        said = await run_program(argv, timeout_seconds=self._section.timeout_seconds, given=line)
        if said.code != 0:
            raise ServerError(f"{argv[0]} ({given['action']}): {said.reason}")
        return said.output


def _equal(one: Weights, other: Weights) -> bool:
    return one.keys() == other.keys() and all(abs(one[name] - other[name]) <= CLOSE for name in one)


def _words(weights: Weights) -> str:
    return ", ".join(f"{name} {weight:g}" for name, weight in weights.items())
