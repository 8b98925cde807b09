"""The journal's side of a campaign: one entry for each trial, written before it first serves."""

from __future__ import annotations

from collections.abc import Sequence

from change.engine import EngineState, Values
from change.journal import Journal
from daemon.lanes import LaneControl
from store import StoreError
from tuner.messages import Event, TrialChanged


class TrialJournal:
    """Entries of the trials that serve or may serve again."""

    def __init__(
        self,
        journal: Journal,
        state: EngineState,
        campaign_id: int,
        lanes: LaneControl | None = None,
    ) -> None:
        """`state` is what the campaign began with; the host's part of a trial has an entry of its own, in `lanes`."""
        self._journal = journal
        self._state = state
        self._lanes = lanes
        self._campaign_id = campaign_id
        self._entries: dict[int, int] = {}

    def intend(self, now: float, trial: int, values: Values) -> None:
        """Write a trial down before it serves; raises `JournalUnwritable`."""
        if trial not in self._entries:
            self._entries[trial] = self._journal.open(
                "trial",
                self._state.boot_id,
                f"campaign {self._campaign_id}",
                self._state.own(values),
                self._state.own(self._state.values),
                now,
                campaign_id=self._campaign_id,
            )

    def served(self, now: float, trial: int, effective: Values) -> str | None:
        """Note that a trial serves; returns why that could not be noted, which costs a note and not the way back."""
        entry = self._entries[trial]
        try:
            if self._journal.entry(entry).state == "intended":
                read = self._state.own(effective)
                self._journal.mark(entry, "applied", now, read)
                self._journal.mark(entry, "verified", now, read)
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
                    if self._lanes is not None:
                        self._lanes.forget(event.values, now, event.reason)
                except StoreError as error:
                    trouble = str(error)
        return trouble
