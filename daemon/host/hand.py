"""The hand of the host lane (`change.host.HostControl`): one part for each knob, blocking work on a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Protocol, TypeVar

from change.host import HostChange, HostError, HostReading
from change.host_knobs import AS_FOUND, ENGINE_KNOBS, HOST_KNOBS

Result = TypeVar("Result")


class Part(Protocol):
    """One knob's hand; everything blocks, and raises `HostError`."""

    @property
    def knob(self) -> str:
        """Its name in the catalogue."""
        ...

    def values(self) -> tuple[str, ...]:
        """The values worth a trial here."""
        ...

    def read(self, *, undo: bool = True) -> HostReading:
        """Read it back, with or without what the way back needs."""
        ...

    def write(self, value: str) -> None:
        """Set it."""
        ...

    def restore(self, undo: Mapping[str, Any]) -> None:
        """Put back what `read` saw."""
        ...

    def preview(self, value: str) -> list[str]:
        """What `write` would do, in words, with nothing changed."""
        ...


class HostHand:
    """The host lane of one engine.

    `parts` are the knobs there are; `allowed` names those that may be changed; `others` tells of other engines on the
    node, whose guards nobody here watches: while there is one, node-wide knobs are advice only. So they are while
    `blind` gives a reason why one could be there unseen.
    """

    def __init__(
        self,
        parts: Mapping[str, Part],
        *,
        allowed: Collection[str] = ENGINE_KNOBS,
        others: Callable[[], list[str]] = list,
        blind: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._parts = parts
        self._allowed = frozenset(allowed)
        self._others = others
        self._blind = blind
        self._found: dict[str, Mapping[str, Any]] = {}
        self._one_at_a_time = asyncio.Lock()

    @property
    def knobs(self) -> tuple[str, ...]:
        """Every knob of this host, changeable or not."""
        return tuple(self._parts)

    async def choices(self) -> Mapping[str, tuple[str, ...]]:
        """The knobs that may be changed here, each with the values worth a trial, the one in force first."""
        return await self._work(self._choices)

    async def read(self, knob: str) -> HostReading:
        """Read one knob with what its undo needs."""
        part = self._part(knob)

        def work() -> HostReading:
            reading = part.read()
            if reading.value == AS_FOUND and reading.undo is not None:
                self._found[knob] = reading.undo
            return reading

        return await self._work(work)

    async def look(self, knob: str) -> HostReading:
        """Read one knob without its undo, which may take long: to be shown, not to be changed."""
        part = self._part(knob)
        return await self._work(lambda: part.read(undo=False))

    async def trials(self) -> Mapping[str, tuple[str, ...]]:
        """The values worth a trial other than the one in force, also of knobs that may not be changed here."""
        found = await self._work(lambda: self._offers(self._parts))
        return {name: values[1:] for name, values in found.items() if len(values) > 1}

    async def apply(self, change: HostChange) -> HostReading:
        """Set one knob and read it back."""
        part = self._part(change.knob)
        if problem := HOST_KNOBS[change.knob].problem(change.value):
            raise HostError(problem)

        def work() -> HostReading:
            if (why := self._refusal(change.knob)) is not None:
                raise HostError(why)
            if change.value != AS_FOUND:
                part.write(change.value)
            elif change.knob in self._found:
                part.restore(self._found[change.knob])
            elif part.read(undo=False).value != AS_FOUND:
                raise HostError(
                    f"what {change.knob} was before is not known here: use `trimtab host rollback`"
                )
            return part.read(undo=False)

        return await self._work(work)

    async def restore(self, knob: str, undo: Mapping[str, Any]) -> HostReading:
        """Put back what `read` saw; the way back is open whatever is allowed and whoever else is on the node."""
        part = self._part(knob)

        def work() -> HostReading:
            part.restore(undo)
            return part.read(undo=False)

        return await self._work(work)

    async def preview(self, change: HostChange) -> list[str]:
        """What `apply` would do, in words; a refusal is a line too."""
        part = self._part(change.knob)

        def work() -> list[str]:
            why = self._refusal(change.knob)
            try:
                lines = (
                    ["nothing: it is what stands"] if change.value == AS_FOUND else part.preview(change.value)
                )
            except HostError as failure:
                return [f"nothing: {failure}"]
            return lines if why is None else [*lines, f"advice only: {why}"]

        return await self._work(work)

    async def refusal(self, knob: str) -> str | None:
        """Why a knob may not be changed here, None if it may."""
        self._part(knob)
        return await self._work(lambda: self._refusal(knob))

    def _choices(self) -> dict[str, tuple[str, ...]]:
        found = self._offers(name for name in self._parts if self._refusal(name) is None)
        return {name: values for name, values in found.items() if len(values) > 1}

    def _offers(self, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
        found = {}
        for name in names:
            part = self._parts[name]
            try:
                trials = part.values()
                reading = part.read(undo=False)
            except HostError:
                continue
            if trials and reading.value is not None:
                found[name] = tuple(dict.fromkeys((reading.value, *trials)))
        return found

    def _refusal(self, knob: str) -> str | None:
        if knob not in self._allowed:
            return f"{knob} is not among the knobs that may be changed: add it to host.knobs"
        if HOST_KNOBS[knob].scope != "node":
            return None
        if (blind := self._blind()) is not None:
            return f"{knob} is node-wide and another engine could be here unseen: {blind}"
        if others := self._others():
            return (
                f"{knob} is node-wide and another engine runs here ({'; '.join(others[:3])}): nobody here watches its "
                "limits"
            )
        return None

    def _part(self, knob: str) -> Part:
        part = self._parts.get(knob)
        if part is None:
            raise HostError(f"the host lane has no {knob}: it has {', '.join(self._parts)}")
        return part

    async def _work(self, work: Callable[[], Result]) -> Result:
        async with self._one_at_a_time:
            return await asyncio.to_thread(work)
