"""A campaign in the foreground that the running daemon runs: start it, watch it, hand answers on."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any, Literal, Protocol

from daemon.client import DaemonClient
from daemon.errors import UserError

BEAT_SECONDS = 1.0
Mode = Literal["advise", "act"]
Ask = Callable[[str], bool]


class Display(Protocol):
    """Shows how a campaign gets on."""

    def show(self, status: dict[str, Any] | None, live: dict[str, Any]) -> None:
        """Show the campaign's status (None before it begins) and the moment's figures."""
        ...


def through_daemon(
    client: DaemonClient,
    mode: Mode,
    minutes: float | None,
    display: Display,
    ask: Ask,
    restarts: int | None = None,
) -> dict[str, Any]:
    """Have the running daemon run a campaign, and watch it; returns its report.

    An interrupt ends the watching only. Raises `UserError`.
    """
    client.post("tune", {"mode": mode, "minutes": minutes, "restarts": restarts})
    while True:
        live = client.get("live")
        status = live.get("campaign")
        if status is None:
            break
        display.show(status, live)
        pending = _question(live)
        if pending is not None:
            answer = "approve" if ask(pending.get("text") or "go on?") else "decline"
            with contextlib.suppress(UserError):
                client.post(f"approvals/{pending['id']}", {"answer": answer})
        time.sleep(BEAT_SECONDS)
    last: dict[str, Any] = live.get("last_campaign") or {}
    number = last.get("campaign")
    if number is None:
        return last
    report = client.get(f"campaigns/{number}").get("report")
    return last if report is None else {"campaign": number} | report


def _question(live: dict[str, Any]) -> dict[str, Any] | None:
    """What the campaign asks; what playbooks ask meanwhile is not this watcher's to answer."""
    return next((one for one in live["approvals"] if one["kind"] != "playbook"), None)
