"""Who is told of alerts. None of them waits for anything: what takes time is queued by whoever takes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rules.alert import Alert


class AlertSink(Protocol):
    """Sends alerts on, as Prometheus does: each again and again while it fires, and for a while once it is resolved."""

    def take(self, alerts: Sequence[Alert], now: float) -> None:
        """Take firing and resolved alerts to send; each holds until its `valid_until` unless it comes again."""
        ...


class ChangeSink(Protocol):
    """Is told of alerts that fire or are resolved, once each."""

    def changed(self, alerts: Sequence[Alert], now: float) -> None:
        """Take alerts that entered the state they are in; pending ones are not among them."""
        ...


class RunSink(Protocol):
    """Starts playbooks (`daemon.acting.driver.PlaybookDriver`)."""

    def fired(self, alerts: Sequence[Alert], now: float) -> None:
        """Take alerts that name a playbook and fire.

        After a restart those that fired before it come once more: a run that there is for an alert's fingerprint and
        `fired_at` is not started again. What was lost between an alert and its run in a crash is made up for so.
        """
        ...

    def resolved(self, alerts: Sequence[Alert], now: float) -> None:
        """Take alerts that name a playbook and are over."""
        ...
