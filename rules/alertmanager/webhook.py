"""Keep what Alertmanager's webhook brought, once for each engine, fingerprint and start, before anything is answered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import select, tuple_
from sqlalchemy.orm import Session

from rules.alertmanager.webhook_body import Received, parse
from store import Store
from store.alert_models import ReceivedAlert
from store.retention import forget_received

ASKED_AT_ONCE = 200
"""Keys in one statement: SQLite takes some 32,000 variables, and a statement of 200 is no slower than of 1,000."""

Key = tuple[str, float]


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a post brought that was not known: alerts that fire, and alerts that are over. `taken` counts all in it,
    `left_out` those that it spoke of and that could not be taken."""

    firing: tuple[Received, ...]
    resolved: tuple[Received, ...]
    taken: int
    left_out: int

    @property
    def news(self) -> bool:
        """Whether anything was written down."""
        return bool(self.firing or self.resolved)


def receive(body: bytes, store: Store, engine: str, now: float) -> Receipt:
    """Read a post to the daemon beside an engine and store what is new of it, in one transaction; a post that says nothing new writes nothing.

    An alert is new once for its engine, fingerprint and start: Alertmanager repeats each at every `repeat_interval`, and every
    instance of a cluster may send it. An alert that fires again with the start it had is not new. Raises
    `WebhookError` for a body that no Alertmanager sends, `StoreError` if it cannot be stored.
    """
    delivery = parse(body)
    alerts = {(alert.fingerprint, alert.starts_at): alert for alert in delivery.alerts}
    with store.reading() as session:
        before = _statuses(session, engine, list(alerts))
    if all(before.get(key) == alert.status for key, alert in alerts.items()):
        return Receipt((), (), len(delivery.alerts), delivery.left_out)
    with store.session() as session:
        # Again, under the write lock: another process may have been quicker.
        before = _statuses(session, engine, list(alerts))
        for key, alert in alerts.items():
            if before.get(key) != alert.status:
                session.merge(_row(alert, engine, now))
        session.flush()
        forget_received(session, engine)
    return Receipt(
        tuple(alert for key, alert in alerts.items() if alert.status == "firing" and key not in before),
        tuple(
            alert
            for key, alert in alerts.items()
            if alert.status == "resolved" and before.get(key) != "resolved"
        ),
        len(delivery.alerts),
        delivery.left_out,
    )


def recent(store: Store, engine: str, since: float, most: int = 1000) -> tuple[Received, ...]:
    """Alerts that came for an engine after a Unix time and fire still, as far as is known; the newest `most`. Raises `StoreError`."""
    query = (
        select(ReceivedAlert)
        .where(
            ReceivedAlert.engine == engine,
            ReceivedAlert.received >= since,
            ReceivedAlert.status == "firing",
        )
        .order_by(ReceivedAlert.received.desc())
        .limit(most)
    )
    with store.reading() as session:
        rows = session.scalars(query).all()
    return tuple(_received(row) for row in reversed(rows))


def _statuses(session: Session, engine: str, keys: Sequence[Key]) -> dict[Key, str]:
    found: dict[Key, str] = {}
    for some in _pieces(keys):
        query = select(ReceivedAlert.fingerprint, ReceivedAlert.starts_at, ReceivedAlert.status).where(
            ReceivedAlert.engine == engine,
            tuple_(ReceivedAlert.fingerprint, ReceivedAlert.starts_at).in_(some),
        )
        found.update({(row.fingerprint, row.starts_at): row.status for row in session.execute(query)})
    return found


def _pieces(keys: Sequence[Key]) -> Iterator[Sequence[Key]]:
    for first in range(0, len(keys), ASKED_AT_ONCE):
        yield keys[first : first + ASKED_AT_ONCE]


def _row(alert: Received, engine: str, now: float) -> ReceivedAlert:
    return ReceivedAlert(
        engine=engine,
        fingerprint=alert.fingerprint,
        starts_at=alert.starts_at,
        status=alert.status,
        labels=dict(alert.labels),
        body=dict(alert.body),
        received=now,
    )


def _received(row: ReceivedAlert) -> Received:
    link = row.body.get("generatorURL")
    return Received(
        row.fingerprint,
        row.starts_at,
        "firing",
        tuple(sorted((str(name), str(value)) for name, value in row.labels.items())),
        (),
        link if isinstance(link, str) else "",
        row.body,
    )
