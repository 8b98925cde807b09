"""Alerts of an engine that nobody watches any more are forgotten; one that fires is not."""

from __future__ import annotations

from sqlalchemy import select

from store import open_store
from store.alert_models import AlertRow
from store.retention import forget


def row(fingerprint: str, state: str, time: float) -> AlertRow:
    return AlertRow(
        engine="http://gone:8000",
        rule="R",
        fingerprint=fingerprint,
        grouped="g",
        labels={},
        annotations={},
        state=state,
        value=1.0,
        active_at=time,
        time=time,
    )


def test_old_alerts_go_and_what_fires_stays() -> None:
    store = open_store("sqlite:///:memory:")
    with store.session() as session:
        session.add_all(
            [
                row("a", "resolved", 10.0),
                row("b", "pending", 10.0),
                row("c", "firing", 10.0),
                row("d", "resolved", 90.0),
            ]
        )
    forget(store, before=50.0)
    with store.reading() as session:
        assert list(session.scalars(select(AlertRow.fingerprint).order_by(AlertRow.fingerprint))) == [
            "c",
            "d",
        ]
    store.close()
