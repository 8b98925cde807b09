"""The search space of one campaign: knobs as coordinates from 0 to 1."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from change.engine import EngineState, Values
from change.knobs import search_space
from tuner.settings import TuneSettings

OFF = 1.0
"""A cap that is off is the largest cap: it stands at the top of its axis."""
OFF_FROM = 0.97


@dataclass(frozen=True, slots=True)
class Dimension:
    """One knob's axis: `low` to `high` in the knob's unit, both included."""

    name: str
    low: float
    high: float
    log: bool
    integer: bool
    zero_is_off: bool = False

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(f"knob {self.name}: nothing to search between {self.low:g} and {self.high:g}")

    def encode(self, value: float) -> float:
        """Coordinate of a value."""
        if self.zero_is_off and value == 0:
            return OFF
        value = min(max(value, self.low), self.high)
        top = OFF_FROM if self.zero_is_off else 1.0
        if self.log:
            return float(top * math.log(value / self.low) / math.log(self.high / self.low))
        return top * (value - self.low) / (self.high - self.low)

    def decode(self, place: float) -> float:
        """Value at a coordinate, rounded to what a person would write."""
        # The largest value itself stands at OFF_FROM.
        if self.zero_is_off and place > OFF_FROM:
            return 0.0
        share = min(max(place / (OFF_FROM if self.zero_is_off else 1.0), 0.0), 1.0)
        if self.log:
            value = float(self.low * (self.high / self.low) ** share)
        else:
            value = self.low + share * (self.high - self.low)
        if not self.integer:
            return round(value, 3)
        return min(max(round_number(value), math.ceil(self.low)), math.floor(self.high))


def round_number(value: float) -> int:
    """The nearest of 1, 1.25, 1.5 and 1.75 times a power of two, as token and batch sizes are written."""
    if value < 8:
        return max(1, round(value))
    step = 2 ** (math.floor(math.log2(value)) - 2)
    return int(round(value / step) * step)


@dataclass(frozen=True, slots=True)
class Space:
    """The axes of a campaign; `fixed` holds the knobs that stay as the incumbent has them."""

    dimensions: tuple[Dimension, ...]
    fixed: Mapping[str, float]

    def encode(self, values: Values) -> tuple[float, ...]:
        """Point of a config."""
        return tuple(dimension.encode(values[dimension.name]) for dimension in self.dimensions)

    def decode(self, point: Sequence[float]) -> dict[str, float]:
        """Whole config at a point."""
        moved = {d.name: d.decode(x) for d, x in zip(self.dimensions, point, strict=True)}
        return {**self.fixed, **moved}

    def without(self, name: str, value: float) -> Space:
        """The space with one knob held at a value, for a knob that the engine does not honour."""
        return Space(tuple(d for d in self.dimensions if d.name != name), {**self.fixed, name: value})


def space_of(state: EngineState, settings: TuneSettings) -> Space:
    """The axes that this engine really has, among the knobs asked for."""
    ranges = search_space(state.values, state.ceilings, state.floors, settings.knobs)
    axes = tuple(Dimension(r.name, r.low, r.high, r.log, r.integer, r.zero_is_off) for r in ranges)
    names = {axis.name for axis in axes}
    return Space(axes, {name: value for name, value in state.values.items() if name not in names})
