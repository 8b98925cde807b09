"""Alerts of others: what Alertmanager's webhook brought, handed to the loop that walks playbooks."""

from __future__ import annotations

from collections.abc import Callable

from collectors.sample import Labels
from daemon.acting.driver import PlaybookDriver


class ReceivedRuns:
    """A `daemon.alerting.receiving.ReceivedSink` over a driver."""

    def __init__(self, driver: PlaybookDriver, clock: Callable[[], float]) -> None:
        self._driver = driver
        self._clock = clock

    def received(self, labels: Labels, fingerprint: str, starts_at: float) -> None:
        """Take an alert that fires."""
        self._driver.received(labels, fingerprint, starts_at)

    def resolved(self, fingerprint: str) -> None:
        """Take the end of one."""
        self._driver.over(fingerprint, self._clock())
