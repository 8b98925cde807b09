"""What the analysis says: one finding with its figures, the threshold it was held to, and what to try."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["high", "medium", "info"]
Unit = Literal["seconds", "bytes", "bytes per second", "share", "count", "times"]


@dataclass(frozen=True, slots=True)
class Figure:
    """One number that a finding stands on, of one rank or of all (`rank` is None)."""

    name: str
    value: float
    unit: Unit
    rank: str | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found. `threshold` says what it was held to and where that comes from; None if to nothing."""

    id: str
    severity: Severity
    title: str
    meaning: str
    figures: tuple[Figure, ...]
    threshold: str | None
    advice: tuple[str, ...] = ()
