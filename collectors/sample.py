"""What a collector returns: one reading of one quantity at one time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

Labels = tuple[tuple[str, str], ...]
"""Label pairs sorted by name, so that equal label sets compare equal."""


SERVER = "server"
"""The label of an engine that is watched beside the tuned one; who asks for no server gets the tuned one's alone."""


def labels(**pairs: str) -> Labels:
    """Build a sorted label tuple."""
    return tuple(sorted(pairs.items()))


@dataclass(frozen=True, slots=True)
class Distribution:
    """A cumulative histogram as Prometheus has it.

    `bounds` are upper bounds in base units, the last one may be infinity; `counts` are cumulative and as long
    as `bounds`.
    """

    bounds: tuple[float, ...]
    counts: tuple[float, ...]
    sum: float
    count: float


def bound_text(bound: float) -> str:
    """A bucket's upper bound as the label `le` of our own page has it."""
    return "+Inf" if bound == math.inf else repr(bound)


@dataclass(frozen=True, slots=True)
class Sample:
    """One reading: canonical name (see `collectors.metrics`), value in base units, labels, Unix time in seconds."""

    name: str
    value: float | Distribution
    time: float
    labels: Labels = ()


class CollectorError(Exception):
    """A source could not be read; the text says what, where and what to do."""


class Collector(Protocol):
    """One source of samples. The runner owns time-out, overlap, back-off and logging."""

    @property
    def name(self) -> str:
        """Short name of the source, as in `trimtab collect --source NAME`."""
        ...

    @property
    def interval_seconds(self) -> float:
        """How often the source is worth reading."""
        ...

    async def collect(self, now: float) -> list[Sample]:
        """Read the source once; raise `CollectorError` when it cannot be read. Absent is not zero."""
        ...


@dataclass(frozen=True, slots=True)
class SourceHealth:
    """How one source did last: shown in the UI and exported as `trimtab_collector_*`."""

    name: str
    success: bool
    duration_seconds: float
    last_success: float | None
    error: str | None = None
    detail: Mapping[str, str] = field(default_factory=dict)
