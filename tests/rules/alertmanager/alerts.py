"""Alerts to send, of which a test says only what it is about."""

from __future__ import annotations

from typing import Any

from collectors.sample import labels
from rules.alert import Alert

NOW = 1_800_000_000.0


def an_alert(name: str = "KvFull", state: Any = "firing", **changes: Any) -> Alert:
    """One alert of severity warning that began to fire a minute before `NOW`; further labels by name."""
    own = {"alertname": name, "severity": "warning"} | changes.pop("labels", {})
    values: dict[str, Any] = {
        "annotations": {"summary": f"{name} holds"},
        "value": 0.97,
        "active_at": NOW - 90,
        "fired_at": NOW - 60,
        "resolved_at": NOW - 5 if state == "resolved" else None,
    }
    return Alert(name, labels(**own), state=state, **(values | changes))
