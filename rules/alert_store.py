"""The alerts in the store: written where they changed, read when the daemon begins."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import get_args

from sqlalchemy import ColumnElement, and_, delete, or_, select

from collectors.sample import Labels
from rules.alert import Alert, AlertState
from store import Store
from store.alert_models import AlertRow

AT_ONCE = 500
"""Alerts looked for in one statement: SQLite takes a limited number of values."""
Key = tuple[str, str]
"""Rule and fingerprint."""
_STATES: dict[str, AlertState] = {state: state for state in get_args(AlertState)}


@dataclass(frozen=True, slots=True)
class Kept:
    """An alert as the store has it, and the time of the evaluation that wrote it."""

    alert: Alert
    time: float


class AlertStore:
    """The alerts of one engine."""

    def __init__(self, store: Store, engine: str) -> None:
        self._store = store
        self._engine = engine

    def read(self) -> list[Kept]:
        """Every alert that is kept. Raises `StoreError`."""
        with self._store.reading() as session:
            rows = session.scalars(select(AlertRow).where(AlertRow.engine == self._engine)).all()
        return [Kept(_alert(row), row.time) for row in rows]

    def write(self, alerts: Collection[Alert], gone: Collection[Key], at: float) -> None:
        """Write alerts as they stand at a time and delete those that are gone, in one turn. Raises `StoreError`."""
        with self._store.session() as session:
            for keys in _portions(gone):
                session.execute(delete(AlertRow).where(self._any_of(keys)))
            for alert in alerts:
                session.merge(self._row(alert, at))

    def _any_of(self, keys: Iterable[Key]) -> ColumnElement[bool]:
        return and_(
            AlertRow.engine == self._engine,
            or_(*(and_(AlertRow.rule == rule, AlertRow.fingerprint == mark) for rule, mark in keys)),
        )

    def _row(self, alert: Alert, at: float) -> AlertRow:
        return AlertRow(
            engine=self._engine,
            rule=alert.rule,
            fingerprint=alert.fingerprint,
            grouped=alert.group,
            labels=dict(alert.labels),
            annotations=dict(alert.annotations),
            state=alert.state,
            # SQLite knows no NaN.
            value=None if math.isnan(alert.value) else alert.value,
            active_at=alert.active_at,
            fired_at=alert.fired_at,
            resolved_at=alert.resolved_at,
            keep_firing_since=alert.keep_firing_since,
            playbook=alert.playbook,
            time=at,
        )


def _portions(keys: Collection[Key]) -> Iterator[list[Key]]:
    every = list(keys)
    for first in range(0, len(every), AT_ONCE):
        yield every[first : first + AT_ONCE]


def _alert(row: AlertRow) -> Alert:
    labels: Labels = tuple(sorted((name, str(value)) for name, value in row.labels.items()))
    return Alert(
        row.rule,
        labels,
        {name: str(value) for name, value in row.annotations.items()},
        _STATES[row.state],
        math.nan if row.value is None else row.value,
        row.active_at,
        row.fired_at,
        row.resolved_at,
        row.keep_firing_since,
        row.playbook,
        group=row.grouped,
    )
