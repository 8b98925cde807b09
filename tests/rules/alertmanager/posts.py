"""Posts of Alertmanager's webhook, of which a test says only what it is about."""

from __future__ import annotations

import json
from typing import Any

from rules.alert import fingerprint


def an_item(
    name: str = "NodeDown", status: str = "firing", start: str = "2026-11-30T08:00:00.5Z", **more: Any
) -> dict[str, Any]:
    """One alert of a post, with the fingerprint that Alertmanager would give it; further fields by name."""
    labels = {"alertname": name, "severity": "critical"}
    item: dict[str, Any] = {
        "status": status,
        "labels": labels,
        "annotations": {"summary": f"{name} holds"},
        "startsAt": start,
        "endsAt": "0001-01-01T00:00:00Z" if status == "firing" else "2026-11-30T09:00:00Z",
        "generatorURL": "http://prometheus:9090/graph?g0.expr=up",
        "fingerprint": fingerprint(tuple(sorted(labels.items()))),
    }
    return item | more


def a_post(*alerts: Any, **more: Any) -> bytes:
    """A whole post, version 4."""
    whole: dict[str, Any] = {
        "receiver": "trimtab",
        "status": "firing",
        "alerts": list(alerts),
        "groupLabels": {"alertname": "NodeDown"},
        "commonLabels": {},
        "commonAnnotations": {},
        "externalURL": "http://alertmanager:9093",
        "version": "4",
        "groupKey": '{}:{alertname="NodeDown"}',
        "truncatedAlerts": 0,
    }
    return json.dumps(whole | more).encode()
