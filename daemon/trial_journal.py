"""The journal's side of a campaign: one entry for each trial, written before it first serves."""

from __future__ import annotations

from collections.abc import Sequence

from change.engine import Values
from change.journal import Journal
from store import StoreError
from tuner.messages import Event, TrialChanged


class TrialJournal:
    """Entries of the trials that serve or may serve again."""

    def __init__(self, journal: Journal, boot_id: str, campaign_id: int, incumbent: Values) -> None:
        self._journal = journal
        self._boot_id = boot_id
        self._campaign_id = campaign_id
        self._incumbent = incumbent
        self._entries: dict[int, int] = {}

    def intend(self, now: float, trial: int, values: Values) -> None:
        """Write a trial down before it serves; raises `JournalUnwritable`."""
        if trial not in self._entries:
            self._entries[trial] = self._journal.open(
                "trial",
                self._boot_id,
                f"campaign {self._campaign_id}",
                values,
                self._incumbent,
                now,
                campaign_id=self._campaign_id,
            )

    def served(self, now: float, trial: int, effective: Values) -> str | None:
        """Note that a trial serves; returns why that could not be noted, which costs a note and not the way back."""
        entry = self._entries[trial]
        try:
            if self._journal.entry(entry).state == "intended":
                self._journal.mark(entry, "applied", now, effective)
                self._journal.mark(entry, "verified", now, effective)
        except StoreError as error:
            return str(error)
        return None

    def close(self, now: float, events: Sequence[Event]) -> str | None:
        """Close the entries of trials that ended; returns why that could not be done."""
        trouble = None
        for event in events:
            if isinstance(event, TrialChanged) and event.ended is not None and event.number in self._entries:
                # A trial never stands by itself: what is promoted has an entry of its own.
                try:
                    self._journal.close(self._entries[event.number], "undone", now, event.reason)
                    del self._entries[event.number]
                except StoreError as error:
                    trouble = str(error)
        return trouble
