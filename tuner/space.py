"""The search space of one campaign: knobs as coordinates from 0 to 1.

A knob whose values are texts has a coordinate for each of them, in the order of its list; that two of them are
neighbours says nothing, so a surrogate sees them as `features`, one column a text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution

from change.choices import Options
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
    choice: bool = False
    """Whether each whole number from 0 to `high` stands for a text."""

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
        if self.choice:
            return float(round(min(max(place, 0.0), 1.0) * self.high))
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
    options: Options = field(default_factory=dict)
    """Texts of the knobs that have texts."""

    def encode(self, values: Values) -> tuple[float, ...]:
        """Point of a config."""
        return tuple(dimension.encode(values[dimension.name]) for dimension in self.dimensions)

    def decode(self, point: Sequence[float]) -> dict[str, float]:
        """Whole config at a point."""
        moved = {d.name: d.decode(x) for d, x in zip(self.dimensions, point, strict=True)}
        return {**self.fixed, **moved}

    def without(self, name: str, value: float) -> Space:
        """The space with one knob held at a value, for a knob that the engine does not honour."""
        left = tuple(d for d in self.dimensions if d.name != name)
        return Space(left, {**self.fixed, name: value}, self.options)

    def distributions(self) -> dict[str, BaseDistribution]:
        """The axes as Optuna has them: coordinates, and the texts of a knob that has texts."""
        return {
            axis.name: CategoricalDistribution(self._texts(axis))
            if axis.choice
            else FloatDistribution(0.0, 1.0)
            for axis in self.dimensions
        }

    def params(self, point: Sequence[float]) -> dict[str, float | str]:
        """A point as Optuna has it."""
        return {
            axis.name: self._texts(axis)[int(axis.decode(place))] if axis.choice else float(place)
            for axis, place in zip(self.dimensions, point, strict=True)
        }

    def point(self, params: Mapping[str, Any]) -> tuple[float, ...]:
        """The point of what Optuna has."""
        return tuple(
            axis.encode(self._texts(axis).index(params[axis.name])) if axis.choice else params[axis.name]
            for axis in self.dimensions
        )

    def _texts(self, axis: Dimension) -> tuple[str, ...]:
        return self.options[axis.name][: int(axis.high) + 1]

    def features(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Points as a surrogate sees them: a number as it is, a text as a column for each other text than the first.

        Any two texts are then equally far from each other but for the weights that the surrogate learns.
        """
        columns: list[NDArray[np.float64]] = []
        for index, axis in enumerate(self.dimensions):
            place = points[:, index]
            if axis.choice:
                chosen = np.rint(np.clip(place, 0.0, 1.0) * axis.high)
                columns.extend((chosen == value).astype(float) for value in range(1, int(axis.high) + 1))
            else:
                columns.append(place)
        return np.stack(columns, axis=1)


def space_of(state: EngineState, settings: TuneSettings) -> Space:
    """The axes that this engine really has, among the knobs asked for."""
    ranges = search_space(state.values, state.ceilings, state.floors, settings.knobs)
    axes = tuple(Dimension(r.name, r.low, r.high, r.log, r.integer, r.zero_is_off, r.choice) for r in ranges)
    names = {axis.name for axis in axes}
    return Space(
        axes, {name: value for name, value in state.values.items() if name not in names}, state.options
    )
