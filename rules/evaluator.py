"""Evaluates groups of rules when they are due, keeps what came of it in the store, and says what is to be sent."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from collectors.sample import Labels
from rules.alert import Alert
from rules.alert_memory import AlertMemory
from rules.alert_state import BadResult, Standing, advance, sending, shifted
from rules.expression import EvaluationError
from rules.readings import Readings
from rules.rule import Rule, RuleGroup
from store import Store

LEAST_SETTLING_SECONDS, MOST_SETTLING_SECONDS = 300.0, 900.0
"""How long after a start the readings may be too short to say that a condition no longer holds."""


def _no_watch() -> float:
    return 0.0


@dataclass(frozen=True, slots=True)
class RuleHealth:
    """How a rule's evaluations went: when the last was, why it failed (None: it did not), how many did."""

    rule: str
    last_evaluation: float | None = None
    last_error: str | None = None
    failures: int = 0


@dataclass(frozen=True, slots=True)
class GroupHealth:
    """How a group's evaluations went; `missed` counts times that came and went without one."""

    group: str
    interval_seconds: float
    last_evaluation: float | None
    duration_seconds: float | None
    missed: int
    rules: tuple[RuleHealth, ...]

    @property
    def last_error(self) -> str | None:
        """The first of its rules' errors, with the rule's name."""
        return next(
            (f"{one.rule}: {one.last_error}" for one in self.rules if one.last_error is not None), None
        )


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What came of a tick.

    `changes` entered the state they are in; `restored` fired before a restart and do so still, told once after it;
    `to_send` is what Alertmanager must hear, changed or not; `groups` were due.
    """

    changes: tuple[Alert, ...] = ()
    to_send: tuple[Alert, ...] = ()
    restored: tuple[Alert, ...] = ()
    groups: tuple[str, ...] = ()


@dataclass(slots=True)
class _Group:
    """A group with what its evaluations left."""

    group: RuleGroup
    standings: dict[str, dict[Labels, Standing]]
    health: dict[str, RuleHealth]
    last_at: float | None = None
    duration: float | None = None
    missed: int = 0


@dataclass(slots=True)
class _Came:
    """What comes of a tick while it goes on."""

    changes: list[Alert] = field(default_factory=list)
    to_send: list[Alert] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)


class Evaluator:
    """The alerts of one engine.

    `readings_since` (Unix seconds) is when what the readings hold began, None if they hold all there is: until they go
    back far enough, alerts from the store are not resolved because nothing is seen. Without `store` a restart forgets.
    """

    def __init__(
        self,
        groups: Sequence[RuleGroup],
        store: Store | None = None,
        engine: str = "",
        *,
        readings_since: float | None = None,
    ) -> None:
        self._groups = [
            _Group(
                group,
                {rule.name: {} for rule in group.rules},
                {rule.name: RuleHealth(rule.name) for rule in group.rules},
            )
            for group in groups
        ]
        self._memory = None if store is None else AlertMemory(store, engine)
        self._readings_since = readings_since

    @property
    def trouble(self) -> str | None:
        """Why the store could not be read or written at the last tick, None if it could."""
        return None if self._memory is None else self._memory.trouble

    def tick(self, readings: Readings, now: float, stopwatch: Callable[[], float] = _no_watch) -> Evaluated:
        """Evaluate the groups that are due, each at the last multiple of its interval.

        `stopwatch` (seconds) tells how long it takes. The store is written at most once, and only if an alert changed.
        """
        restored = self._restore(now)
        came = _Came()
        for one in self._groups:
            at = math.floor(now / one.group.interval_seconds) * one.group.interval_seconds
            if self._is_due(one, at):
                self._evaluate(one, readings, at, stopwatch, came)
        if self._memory is not None:
            self._memory.write(self._standings(), now)
            orphans = self._memory.orphans(now)
            came.changes += orphans
            came.to_send += orphans
        return Evaluated(tuple(came.changes), tuple(came.to_send), restored, tuple(came.groups))

    def evaluate(self, readings: Readings, at: float) -> Evaluated:
        """Evaluate every group at a time, due or not, without the store: for traces that are replayed."""
        came = _Came()
        for one in self._groups:
            self._evaluate(one, readings, at, _no_watch, came)
        return Evaluated(tuple(came.changes), tuple(came.to_send), groups=tuple(came.groups))

    def alerts(self) -> tuple[Alert, ...]:
        """Every alert as it stands: pending, firing, and resolved in the last quarter of an hour."""
        return tuple(standing.alert for _, _, standing in self._standings())

    def health(self) -> tuple[GroupHealth, ...]:
        """How the groups and their rules are doing."""
        return tuple(
            GroupHealth(
                one.group.name,
                one.group.interval_seconds,
                one.last_at,
                one.duration,
                one.missed,
                tuple(one.health.values()),
            )
            for one in self._groups
        )

    def _is_due(self, one: _Group, at: float) -> bool:
        if one.last_at is None or at > one.last_at:
            return True
        back = one.last_at - at
        if back > one.group.interval_seconds:
            # The clock was set back: how long conditions have held stays what it was.
            back += one.group.interval_seconds
            one.standings = {name: shifted(held, back) for name, held in one.standings.items()}
            one.last_at -= back
            return True
        return False

    def _evaluate(
        self, one: _Group, readings: Readings, at: float, stopwatch: Callable[[], float], came: _Came
    ) -> None:
        begun = stopwatch()
        interval = one.group.interval_seconds
        if one.last_at is not None:
            one.missed += max(0, round((at - one.last_at) / interval) - 1)
        for rule in one.group.rules:
            before = one.standings[rule.name]
            health = replace(one.health[rule.name], last_evaluation=at)
            try:
                points = rule.expression.evaluate(readings, at)
                advanced = advance(rule, one.group.name, before, points, at, settled=self._settled(rule, at))
            except (EvaluationError, BadResult, ArithmeticError, ValueError) as error:
                # Frozen: nothing is known, so nothing changes, and nothing is sent.
                one.health[rule.name] = replace(
                    health, last_error=_words(error), failures=health.failures + 1
                )
                continue
            one.health[rule.name] = replace(health, last_error=None)
            due = sending(advanced.standings, at, interval)
            one.standings[rule.name] = advanced.standings | due
            came.changes += (one.standings[rule.name][alert.labels].alert for alert in advanced.changes)
            came.to_send += (standing.alert for standing in due.values())
        one.last_at = at
        one.duration = max(0.0, stopwatch() - begun)
        came.groups.append(one.group.name)

    def _settled(self, rule: Rule, at: float) -> bool:
        if self._readings_since is None:
            return True
        reach = max(rule.expression.reach_seconds, LEAST_SETTLING_SECONDS)
        return at - self._readings_since >= min(reach, MOST_SETTLING_SECONDS)

    def _restore(self, now: float) -> tuple[Alert, ...]:
        """Take over what the store holds, once it can be read."""
        if self._memory is None or self._memory.restored:
            return ()
        rules = {rule.name: (one, rule) for one in self._groups for rule in one.group.rules}
        firing = []
        for standing in self._memory.restore(now, rules):
            one, rule = rules[standing.alert.rule]
            alert = replace(standing.alert, group=one.group.name, for_seconds=rule.for_seconds)
            # What was seen since, while the store could not be read, is newer.
            held = one.standings[rule.name].setdefault(alert.labels, replace(standing, alert=alert))
            if held.alert is alert and alert.state == "firing":
                firing.append(alert)
        return tuple(firing)

    def _standings(self) -> Iterator[tuple[str, Labels, Standing]]:
        for one in self._groups:
            for name, standings in one.standings.items():
                for labels, standing in standings.items():
                    yield name, labels, standing


def _words(error: Exception) -> str:
    return " ".join(str(error).split())[:500] or type(error).__name__
