"""An alert: one instance of a rule whose condition holds for one set of labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from collectors.sample import Labels

AlertState = Literal["pending", "firing", "resolved"]

_OFFSET, _PRIME, _SEPARATOR = 14695981039346656037, 1099511628211, 255


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert as it stands; times are Unix seconds.

    `labels` hold `alertname` and all that the rule adds, as Alertmanager gets them. `active_at` is when the condition
    began to hold, `fired_at` when it had held for the rule's `for`, `resolved_at` when it no longer held.
    `for_seconds` is that `for`. `valid_until` is until when Alertmanager is to believe that it fires without hearing of
    it again: the `endsAt` of one that is not resolved; None while it has never been sent.
    """

    rule: str
    labels: Labels
    annotations: Mapping[str, str]
    state: AlertState
    value: float
    active_at: float
    fired_at: float | None = None
    resolved_at: float | None = None
    keep_firing_since: float | None = None
    playbook: str | None = None
    group: str = field(default="", kw_only=True)
    for_seconds: float = field(default=0.0, kw_only=True)
    valid_until: float | None = field(default=None, kw_only=True)

    @property
    def fingerprint(self) -> str:
        """The 16 hex digits by which Alertmanager knows these labels."""
        return fingerprint(self.labels)

    @property
    def severity(self) -> str:
        """The label of that name; empty where the rule gives none."""
        return dict(self.labels).get("severity", "")


def fingerprint(labels: Labels) -> str:
    """FNV-1a over the sorted label pairs, as `model.LabelSet.Fingerprint` of prometheus/common computes it."""
    total = _OFFSET
    for name, value in sorted(labels):
        for part in (name, value):
            for byte in (*part.encode(), _SEPARATOR):
                total = ((total ^ byte) * _PRIME) % 2**64
    return f"{total:016x}"
