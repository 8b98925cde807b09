"""How many restarts and how much lost time are left, counted from the journal, so that no crash refills them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from change.journal import Journal
from change.restart.order import RestartOrder
from store.models import JournalEntry

DAY_SECONDS = 24 * 3600.0
_ORDERED_BY_A_PERSON = frozenset({"manual", "rollback"})


@dataclass(frozen=True, slots=True)
class Spent:
    """Starts of the engine, and seconds in which its users waited."""

    restarts: int
    lost_seconds: float


@dataclass(frozen=True, slots=True)
class Budget:
    """What may be spent within the last 24 hours, over all campaigns.

    A way back is always made, and counts. `window` says why a time is not one for restarts, or None; what a person
    orders is made at any time and beyond the budget, as it is their decision, and counts as well.
    """

    restarts_per_day: int
    lost_minutes_per_day: float
    window: Callable[[float], str | None]

    def refusal(self, journal: Journal, order: RestartOrder, now: float) -> str | None:
        """Say why this restart is not made now, or None. Raises `StoreError`."""
        if order.kind in _ORDERED_BY_A_PERSON:
            return None
        closed = self.window(now)
        if closed is not None:
            return closed
        today = spent(journal, now)
        if today.restarts >= self.restarts_per_day:
            return (
                f"{today.restarts} of {self.restarts_per_day} restarts of the last 24 hours are used "
                "(engine.restart.per_day)"
            )
        if today.lost_seconds >= self.lost_minutes_per_day * 60.0:
            return (
                f"{today.lost_seconds / 60:.1f} of {self.lost_minutes_per_day:g} minutes of lost capacity of the last "
                "24 hours are used (engine.restart.lost_minutes_per_day)"
            )
        return None


def spent(journal: Journal, now: float) -> Spent:
    """What was spent within the last 24 hours; a restart that nobody brought to an end counts until now.

    One that left the engine down counts until a later start was seen to serve, whoever made it.
    """
    entries = journal.since("cold", now - DAY_SECONDS)
    down = sum(_down(journal, entry, now) for entry in entries)
    return Spent(sum(map(_starts, entries)), down + sum(_lost(entry, now) for entry in entries))


def _down(journal: Journal, entry: JournalEntry, now: float) -> float:
    """Seconds since the end of a restart that left the engine down."""
    if entry.closed is None or not (entry.effective or {}).get("left_down"):
        return 0.0
    up = journal.launched_after(entry.closed)
    return max(0.0, (now if up is None else min(up, now)) - entry.closed)


def _starts(entry: JournalEntry) -> int:
    """At least one once the engine was stopped, also where the process died before it could count."""
    counted = (entry.effective or {}).get("starts")
    if isinstance(counted, int) and entry.state == "closed":
        return counted
    return 0 if entry.applied is None else 1


def _lost(entry: JournalEntry, now: float) -> float:
    known = (entry.effective or {}).get("down_seconds")
    if isinstance(known, int | float) and (entry.state == "closed" or entry.verified is not None):
        return float(known)
    if entry.applied is None:
        return 0.0
    return max(0.0, (now if entry.closed is None else entry.closed) - entry.intended)
