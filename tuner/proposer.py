"""What to try next: the field's priors, past winners, one step along each axis, then the sampler."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import optuna

from change.choices import Options, words
from change.engine import Values
from tuner.host_priors import host_priors
from tuner.sampler import Array, Fits, GainSampler, Region
from tuner.space import Dimension, Space

Source = Literal["prior", "past", "step", "sampler"]

PRIORS: tuple[tuple[str, Mapping[str, float]], ...] = (
    ("the 235B guide on one Atlas 800I A2", {"batch_max_tokens": 8192, "max_prefill_tokens": 512}),
    ("the 235B guide's prefill cap alone", {"max_prefill_tokens": 512}),
    ("the SGLang guide", {"batch_max_tokens": 4096}),
)
"""What the field's guides recommend: tried first, never trusted."""

STEPS = (-0.3, 0.3, -0.6)
BESIDE = 0.05
"""How far beside the leader a knob that it moves is tried again: about a step of what a person would write."""
START_WIDTH = 0.35
MIN_WIDTH = 0.12
MAX_WIDTH = 1.0
PATIENCE = 4
"""Candidates without a better one after which the region shrinks."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A config to try and where it came from."""

    values: dict[str, float]
    source: Source
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of one config: mean gain, the variance of that mean, and its constraint (<= 0 is feasible)."""

    values: Values
    gain: float
    variance: float
    constraint: float


def study_of(
    space: Space, evidence: Sequence[Evidence], sampler: optuna.samplers.BaseSampler
) -> optuna.Study:
    """An in-memory study that holds the evidence as finished trials; the store stays the only truth."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    distributions = space.distributions()
    for item in evidence:
        study.enqueue_trial(dict(space.params(space.encode(item.values))))
        trial = study.ask(distributions)
        trial.set_user_attr("variance", item.variance)
        trial.set_user_attr("constraint", item.constraint)
        trial.set_constraint("limits", item.constraint)
        study.tell(trial, item.gain)
    return study


class Proposer:
    """Draws candidates for one campaign; no config twice."""

    pairs_each: int | None = None
    """With a number, every candidate is measured by that many pairs and the race neither cuts nor repeats any."""

    def __init__(
        self,
        space: Space,
        incumbent: Values,
        seed: int,
        problems: Callable[[Values], list[str]],
        past: Sequence[Values] = (),
    ) -> None:
        self.space = space
        self.incumbent = dict(incumbent)
        self.skipped: list[str] = []
        self.width = START_WIDTH
        self._problems = problems
        self._random = np.random.default_rng(seed)
        self._seen: list[dict[str, float]] = [dict(incumbent)]
        self._failures = 0
        self._beside_next = False
        self._fits = Fits()
        self._queue: list[Proposal] = []
        self.expected_improvement = float("inf")
        for values in past:
            self._enqueue(values, "past", "winner of a similar workload")
        for origin, values in (*PRIORS, *host_priors(space)):
            self._enqueue(values, "prior", origin)
        self._steps()

    def hold(self, name: str, value: float) -> None:
        """Stop searching a knob that the engine does not honour."""
        self.space = self.space.without(name, value)
        self._queue = [p for p in self._queue if p.values.get(name) == value]

    def avoid(self, name: str, value: float) -> None:
        """Try one value of a knob no more: it did not take, which says nothing of the knob's others."""
        before = self._problems
        self._problems = lambda values: (
            [f"{name} did not take this value"] if values.get(name) == value else before(values)
        )
        self._queue = [p for p in self._queue if p.values.get(name) != value]

    def propose(self, evidence: Sequence[Evidence]) -> Proposal | None:
        """The next config, or None when there is nothing new to try."""
        while self._queue:
            proposal = self._queue.pop(0)
            if self._new(proposal.values):
                self._seen.append(proposal.values)
                return proposal
        if not self.space.dimensions:
            return None
        for _ in range(8):
            values = self._sample(evidence)
            if self._new(values) and not self._problems(values):
                self._seen.append(values)
                return Proposal(values, "sampler")
        return None

    def learn(self, *, better: bool) -> None:
        """Let the region grow with success and shrink with a run of failures."""
        if better:
            self.width = min(self.width * 1.5, MAX_WIDTH)
            self._failures = 0
        else:
            self._failures += 1
            if self._failures >= PATIENCE:
                self.width = max(self.width * 0.7, MIN_WIDTH)
                self._failures = 0

    def smoothed(self, evidence: Sequence[Evidence]) -> list[tuple[float, float]]:
        """Gain and its standard deviation of each config once its neighbours have had their say."""
        if not self.space.dimensions:
            return [(item.gain, item.variance**0.5) for item in evidence]
        points, gains, variances = _arrays(self.space, evidence)
        surrogate = self._fits.surrogate("gain", self.space, points, gains, variances)
        mean, sd = surrogate.predict(points)
        return [(float(m), float(s)) for m, s in zip(mean, sd, strict=True)]

    def simpler(self, values: Values, evidence: Sequence[Evidence], tolerance: float) -> Proposal | None:
        """The same config with every knob put back that the evidence says does nothing; None if all of them matter.

        A knob counts as doing nothing when putting it back is expected to lose less than `tolerance` of gain.
        """
        if not self.space.dimensions:
            return None
        current = dict(values)
        expected = self._expected(current, evidence)
        for axis in self.space.dimensions:
            candidate = {**current, axis.name: self.incumbent[axis.name]}
            found = self._expected(candidate, evidence)
            if candidate != current and found >= expected - tolerance and not self._problems(candidate):
                current, expected = candidate, max(found, expected)
        if not self._new(current):
            return None
        self._seen.append(current)
        return Proposal(current, "sampler", "the leader with fewer knobs moved")

    def _expected(self, values: Values, evidence: Sequence[Evidence]) -> float:
        points, gains, variances = _arrays(self.space, evidence)
        surrogate = self._fits.surrogate("gain", self.space, points, gains, variances)
        mean, _ = surrogate.predict(np.array([self.space.encode(values)]))
        return float(mean[0])

    def _sample(self, evidence: Sequence[Evidence]) -> dict[str, float]:
        feasible = [item for item in evidence if item.constraint <= 0]
        gains = self.smoothed(evidence)
        best = max(
            (i for i, item in enumerate(evidence) if item.constraint <= 0),
            key=lambda i: gains[i][0],
            default=None,
        )
        center = self.space.encode(evidence[best].values if best is not None and feasible else self.incumbent)
        self._beside_next = not self._beside_next
        if self._beside_next and (beside := self._beside(center)) is not None:
            return beside
        seed = int(self._random.integers(2**31))
        sampler = GainSampler(seed, self.space, Region(center, self.width), self._fits, self._usable)
        study = study_of(self.space, evidence, sampler)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            trial = study.ask(self.space.distributions())
        self.expected_improvement = sampler.expected_improvement
        return self.space.decode(self.space.point(trial.params))

    def _beside(self, leader: Sequence[float]) -> dict[str, float] | None:
        """The leader with one of its moved knobs a little further or less far, as long as there is such a config.

        A smooth surrogate takes the first good value of a knob for the best; a narrow optimum lies just beside it.
        """
        start = self.space.encode(self.incumbent)
        for axis in range(len(leader)):
            for step in (BESIDE, -BESIDE):
                place = leader[axis] + step
                if (
                    self.space.dimensions[axis].choice
                    or leader[axis] == start[axis]
                    or not 0.0 <= place <= 1.0
                ):
                    continue
                values = self.space.decode([*leader[:axis], place, *leader[axis + 1 :]])
                if self._new(values) and not self._problems(values):
                    return values
        return None

    def _usable(self, points: Array) -> Array:
        """The points as they would be tried, without what is not valid or was tried already.

        Many points are one config once they are rounded, above all where a knob is off.
        """
        names = [dimension.name for dimension in self.space.dimensions]
        seen = {tuple(values[name] for name in names) for values in self._seen}
        found: list[tuple[float, ...]] = []
        for point in points:
            values = self.space.decode(point.tolist())
            key = tuple(values[name] for name in names)
            if key not in seen:
                seen.add(key)
                if not self._problems(values):
                    found.append(self.space.encode(values))
        return np.array(found)

    def _steps(self) -> None:
        """One knob moved at a time, so that the first evidence tells which knobs matter; a lone one by halves."""
        for axis in (d for d in self.space.dimensions if d.choice):
            for choice in range(int(axis.high) + 1):
                self._enqueue({axis.name: float(choice)}, "step", None)
        if len(self.space.dimensions) == 1:
            for values in spread(self._halves(self.space.dimensions[0])):
                self._enqueue(values, "step", None)
            return
        start = self.space.encode(self.incumbent)
        for step in STEPS:
            for index, dimension in enumerate(self.space.dimensions):
                place = start[index] + step
                if not dimension.choice and 0.0 <= place <= 1.0:
                    self._enqueue({dimension.name: dimension.decode(place)}, "step", None)

    def _halves(self, axis: Dimension) -> list[Values]:
        """Half of the incumbent's value, half of that, and so on; from the top where it is off."""
        if axis.choice:
            return []
        value = self.incumbent[axis.name] or axis.high
        found: list[Values] = []
        while axis.log and value / 2 >= axis.low:
            value /= 2
            found.append({axis.name: axis.decode(axis.encode(value))})
        return found

    def _enqueue(self, values: Values, source: Source, note: str | None) -> None:
        known = {d.name for d in self.space.dimensions}
        foreign = [name for name in values if name not in known and values[name] != self.incumbent.get(name)]
        whole = {**self.incumbent, **values}
        reasons = [f"{name} is not searched here" for name in foreign] or self._problems(whole)
        if reasons:
            if source != "step":
                self.skipped.append(f"{_text(values, self.space.options)} ({note}): {reasons[0]}")
            return
        if self._new(whole):
            self._queue.append(Proposal(whole, source, note))

    def _new(self, values: Values) -> bool:
        return all(dict(values) != seen for seen in self._seen)


def spread(ordered: Sequence[Values]) -> list[Values]:
    """The same items, the middle first, then the middles of what is left and right of it, and so on.

    The first few then stand for the whole range, however soon the time is up.
    """
    found: list[Values] = []
    parts = [ordered]
    while parts:
        part = parts.pop(0)
        if part:
            middle = len(part) // 2
            found.append(part[middle])
            parts += [part[:middle], part[middle + 1 :]]
    return found


def _arrays(space: Space, evidence: Sequence[Evidence]) -> tuple[Array, Array, Array]:
    points = np.array([space.encode(item.values) for item in evidence])
    return points, np.array([item.gain for item in evidence]), np.array([item.variance for item in evidence])


def _text(values: Values, options: Options) -> str:
    return ", ".join(f"{name} {words(name, value, options)}" for name, value in values.items())
