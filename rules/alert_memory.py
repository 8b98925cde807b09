"""Which alerts the store must be told of: those that changed, all in one turn, and again if it could not be written."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import replace

from collectors.sample import Labels
from rules.alert import Alert, fingerprint
from rules.alert_state import Standing
from rules.alert_store import AlertStore, Kept
from store import Store, StoreError

REFRESH_SECONDS = 60.0
"""How old the time of a pending alert in the store may be: it tells how long the alert was watched before a crash."""
OUTAGE_SECONDS = 3600.0
"""After a longer absence than this a pending alert begins anew; Prometheus' `--rules.alert.for-outage-tolerance`."""
NEARLY_AT_ONCE_SECONDS = REFRESH_SECONDS + 30.0
"""A restart that took no longer than this counts as none: the store's time may be older by that much anyway."""

_Key = tuple[str, Labels]
_Trace = tuple[object, ...]


class AlertMemory:
    """What of the alerts the store holds, as far as this process knows."""

    def __init__(self, store: Store, engine: str) -> None:
        self._alerts = AlertStore(store, engine)
        self._written: dict[_Key, tuple[_Trace, float]] = {}
        self._orphans: list[Alert] = []
        self.restored = False
        self.trouble: str | None = None

    def restore(self, now: float, rules: Container[str]) -> list[Standing]:
        """The alerts that the store holds of these rules; empty while it cannot be read, see `trouble`.

        Those of rules that are gone are resolved, told by `orphans`, and forgotten.
        """
        try:
            kept = self._alerts.read()
        except StoreError as error:
            self.trouble = str(error)
            return []
        self.restored = True
        found = []
        for one in kept:
            alert = one.alert
            self._written[alert.rule, alert.labels] = (_trace(alert), one.time)
            if alert.rule not in rules:
                if alert.state == "firing":
                    self._orphans.append(replace(alert, state="resolved", resolved_at=now))
            elif alert.state != "pending" or now - one.time <= OUTAGE_SECONDS:
                found.append(_standing(one, now))
        return found

    def orphans(self, now: float) -> list[Alert]:
        """Alerts of rules that are gone, resolved, told once."""
        told, self._orphans = self._orphans, []
        return [replace(alert, valid_until=now) for alert in told]

    def write(self, standings: Iterable[tuple[str, Labels, Standing]], now: float) -> None:
        """Write what changed since the last time, if anything did; what the store does not take is tried again."""
        if not self.restored:
            return
        changed: list[tuple[_Key, Alert]] = []
        pending: list[tuple[_Key, Alert]] = []
        there: set[_Key] = set()
        due = False
        for rule, labels, standing in standings:
            key, alert = (rule, labels), standing.alert
            there.add(key)
            trace, time = self._written.get(key, (None, now))
            if trace != _trace(alert):
                changed.append((key, alert))
            elif alert.state == "pending" and standing.unseen_since is None:
                pending.append((key, alert))
                due = due or not 0 <= now - time < REFRESH_SECONDS
        gone = self._written.keys() - there
        if not changed and not gone and not due:
            self.trouble = None
            return
        # Since it is written anyway, the times of the pending ones are brought up to date with it.
        changed += pending
        try:
            self._alerts.write(
                [alert for _, alert in changed], [(rule, fingerprint(labels)) for rule, labels in gone], now
            )
        except StoreError as error:
            self.trouble = str(error)
            return
        self.trouble = None
        for key in gone:
            del self._written[key]
        for key, alert in changed:
            self._written[key] = (_trace(alert), now)


def _trace(alert: Alert) -> _Trace:
    """What of an alert is worth a write: not its value and texts, which are others each time."""
    return (alert.state, alert.active_at, alert.fired_at, alert.resolved_at, alert.keep_firing_since)


def _standing(kept: Kept, now: float) -> Standing:
    away = now - kept.time
    if kept.alert.state == "resolved":
        return Standing(kept.alert)
    return Standing(
        kept.alert, unseen_since=now if 0 <= away <= NEARLY_AT_ONCE_SECONDS else min(kept.time, now)
    )
