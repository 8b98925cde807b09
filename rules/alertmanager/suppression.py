"""Whether an Alertmanager holds an alert back: one question, and how its answer is read."""

from __future__ import annotations

import json
from collections.abc import Sequence

from collectors.sample import Labels
from rules.delivery.http import Unreachable, Wire

MOST_ANSWER_BYTES = 4 * 1024 * 1024
LONGEST_QUERY = 3000
"""Characters of filters: servers and proxies take an address of 8 kB, in which each may be three times as long."""

_STATES = ("active", "suppressed")


async def question(wire: Wire, alerts_url: str, fingerprint: str, labels: Labels) -> bool | None:
    """Ask one instance; None where it does not answer, or does not know the alert.

    `labels`, as far as they are known, only make the answer shorter.
    """
    params = [(state, "true") for state in ("active", "silenced", "inhibited", "unprocessed")]
    params += [("filter", text) for text in filters(labels)]
    try:
        answer = await wire.get(alerts_url, params, most_bytes=MOST_ANSWER_BYTES)
    except Unreachable:
        return None
    return read(answer.body, fingerprint) if answer.ok and answer.whole else None


def filters(labels: Labels) -> Sequence[str]:
    """Matchers that this alert passes and few others do: the shortest first, as many as an address holds.

    The answer is searched for the fingerprint, so that one left out makes it longer and not wrong.
    """
    found: list[str] = []
    room = LONGEST_QUERY
    for name, value in sorted(labels, key=lambda pair: (pair[0] != "alertname", len(pair[1]), pair)):
        text = f'{name}="{_escaped(value)}"'
        room -= len(text)
        if room < 0:
            break
        found.append(text)
    return found


def read(body: bytes, wanted: str) -> bool | None:
    """What the answer says of the alert with the fingerprint `wanted`; None if it is not in it."""
    try:
        alerts = json.loads(body)
    except (ValueError, RecursionError):
        return None
    for alert in alerts if isinstance(alerts, list) else ():
        if not isinstance(alert, dict) or alert.get("fingerprint") != wanted:
            continue
        status = alert.get("status")
        state = status.get("state") if isinstance(status, dict) else None
        # "unprocessed": it has not looked at it yet.
        return state == "suppressed" if state in _STATES else None
    return None


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
