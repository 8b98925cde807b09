"""What an expression is evaluated over: series of readings by name and labels, as Prometheus would hold them.

`rules.history_readings` gives those of the daemon's own `History`, `rules.trace` those of a recorded trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from collectors.sample import Labels

MatchOp = Literal["=", "!=", "=~", "!~"]


@dataclass(frozen=True, slots=True)
class Matcher:
    """One condition on a label of a selector; a label that is not there is the empty text."""

    label: str
    op: MatchOp
    value: str


@dataclass(frozen=True, slots=True)
class Track:
    """One series: its labels without the name, and its readings in order of time (Unix seconds).

    `ended` says that the series went stale after its last reading: it has no value from then on.
    """

    labels: Labels
    times: Sequence[float]
    values: Sequence[float]
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Point:
    """A value with its labels: one element of an instant vector. A scalar is a point without labels."""

    labels: Labels
    value: float


class Readings(Protocol):
    """The series that there are."""

    def tracks(self, name: str, matchers: Sequence[Matcher], start: float, end: float) -> Iterable[Track]:
        """Give the series of a name that match, with their readings in (start, end].

        A histogram `x` is the names `x_bucket` (label `le`), `x_sum` and `x_count`. A name that is not known has no
        series.
        """
        ...
