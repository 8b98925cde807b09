"""The simulated host: the port of the host lane over a node's story, in virtual time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from change.choices import Options
from change.host import HostChange, HostError, HostReading
from change.host_knobs import ENGINE_KNOBS, HOST_KNOBS
from sim.engine import Engine
from sim.physics import Physics


class Story(Protocol):
    """What the knobs of a host are worth to its engine."""

    @property
    def options(self) -> Options:
        """The knobs with the values worth a trial, what was found first."""
        ...

    def physics(self, physics: Physics, values: Mapping[str, str]) -> Physics:
        """The engine's step costs with the host as `values` say."""
        ...

    def noise(self, values: Mapping[str, str]) -> float:
        """How restless steps are beside the host as found (1)."""
        ...

    def computing(self, values: Mapping[str, str]) -> float:
        """Share of the engine's busy time in which the NPUs compute."""
        ...


def found(story: Story) -> dict[str, str]:
    """The host's settings before anybody changed them."""
    return {name: texts[0] for name, texts in story.options.items()}


def put_beside(engine: Engine, story: Story, physics: Physics, values: Mapping[str, str]) -> None:
    """Let the engine live beside the host as `values` say, from its next step on."""
    engine.live_beside(story.physics(physics, values), story.noise(values))


class SimulatedHost:
    """A `HostControl` that takes at once.

    `ignores` names knobs that it takes and does not honour, `broken` those that it fails to set.
    """

    def __init__(self, story: Story, engine: Engine, physics: Physics, name: str) -> None:
        self.values = found(story)
        self.ignores: set[str] = set()
        self.broken: set[str] = set()
        self._story = story
        self._name = name
        self._engine = engine
        self._physics = physics
        self._live()

    @property
    def hand(self) -> SimulatedHost:
        """The host is its own hand."""
        return self

    def boot_id(self) -> str:
        """It never restarts."""
        return self._name

    def node_lock(self, what: str) -> None:
        """Nobody else is on a simulated node."""

    def process_lock(self, what: str) -> None:
        """As above."""

    @property
    def computing(self) -> float:
        """Share of the engine's busy time in which the NPUs compute."""
        return self._story.computing(self.values)

    async def choices(self) -> Mapping[str, tuple[str, ...]]:
        """See `HostControl`."""
        return {
            name: (self.values[name], *(text for text in texts if text != self.values[name]))
            for name, texts in self._story.options.items()
        }

    async def read(self, knob: str) -> HostReading:
        """See `HostControl`."""
        self._known(knob)
        value = self.values[knob]
        return HostReading(knob, HOST_KNOBS[knob].scope, value, undo={"value": value})

    async def apply(self, change: HostChange) -> HostReading:
        """See `HostControl`."""
        self._known(change.knob)
        if change.value not in self._story.options[change.knob]:
            raise HostError(f"{change.knob}={change.value}: this host has no such value")
        return await self._set(change.knob, change.value)

    async def restore(self, knob: str, undo: Mapping[str, Any]) -> HostReading:
        """See `HostControl`."""
        self._known(knob)
        return await self._set(knob, str(undo["value"]))

    def engine_restarted(self) -> None:
        """New threads and pages are where the engine puts them; what is set for the whole node stays."""
        self.values |= {name: text for name, text in found(self._story).items() if name in ENGINE_KNOBS}
        self._live()

    def rebase(self, physics: Physics) -> None:
        """Live on with other step costs below the host's part in them."""
        self._physics = physics
        self._live()

    async def _set(self, knob: str, value: str) -> HostReading:
        if knob in self.broken:
            raise HostError(f"{knob} cannot be set on this simulated host")
        if knob not in self.ignores:
            self.values[knob] = value
            self._live()
        return await self.read(knob)

    def _known(self, knob: str) -> None:
        if knob not in self.values:
            raise HostError(f"{knob} is no knob of this host: it has {', '.join(self.values)}")

    def _live(self) -> None:
        put_beside(self._engine, self._story, self._physics, self.values)
