"""The capability the face asks of the daemon: what is true now, and the changes a person may order.

The daemon implements `Body`; `web.shapes.Live` documents what `live` returns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol


class Refused(Exception):
    """The daemon will not do what was asked (mode, lock, journal, bounds); the text says why."""


class NotFound(Exception):
    """What was named (an approval, a journal entry) does not exist."""


class Senseless(Exception):
    """What was sent is not what was asked for; the text says in which way, and to send it again would not help."""


class TryLater(Exception):
    """There is too much at once: nothing was done, and it may be sent again after `seconds`."""

    def __init__(self, text: str, seconds: float) -> None:
        super().__init__(text)
        self.seconds = seconds


class Body(Protocol):
    """The running daemon as the face sees it. Every answer is JSON-able; None means unknown, never zero.

    The changing methods raise `Refused`, `NotFound` or `change.engine.EngineError`; the face turns these into
    409, 404 and 502 (503 when the engine is unreachable).
    """

    def live(self, now: float) -> dict[str, Any]:
        """Describe this moment (`now` in Unix seconds) from memory, with no I/O: it is called each second."""
        ...

    def alerts(self) -> dict[str, Any]:
        """Give the current alerts and the rules with their health, from memory (`web.alert_shapes.Alerts`)."""
        ...

    async def knobs(self) -> list[dict[str, Any]]:
        """List the knob catalogue as it applies to this engine (`web.shapes.Knob`)."""
        ...

    async def apply(
        self, values: Mapping[str, int | float | str | bool], *, restart: bool = False
    ) -> dict[str, Any]:
        """Apply knob values by hand, journaled, with no lease; those that need a restart only with `restart`."""
        ...

    async def rollback(self, n: int) -> dict[str, Any]:
        """Undo the last `n` journal entries."""
        ...

    async def host_apply(self, changes: Mapping[str, str]) -> dict[str, Any]:
        """Change knobs of the host lane by hand, in their order, journaled."""
        ...

    async def host_rollback(self, n: int) -> dict[str, Any]:
        """Undo the last `n` changes of the host lane."""
        ...

    async def pause(self) -> dict[str, Any]:
        """Stop both minds; a running trial goes back to the incumbent."""
        ...

    async def resume(self) -> dict[str, Any]:
        """Let the minds go on."""
        ...

    async def detach(self) -> dict[str, Any]:
        """Put the launch values back and leave no trace."""
        ...

    async def tune(
        self, mode: Literal["advise", "act"], minutes: float | None, restarts: int | None = None
    ) -> dict[str, Any]:
        """Start a campaign of at most `minutes` and `restarts` (None: as configured)."""
        ...

    def playbooks(self) -> list[dict[str, Any]]:
        """List the playbooks (`web.run_shapes.Playbook`)."""
        ...

    async def run_playbook(self, name: str, labels: Mapping[str, str], *, dry_run: bool) -> dict[str, Any]:
        """Have a playbook walk, labels as its variables; a dry run changes nothing (`web.run_shapes.Begun`)."""
        ...

    async def approve(self, id: str) -> dict[str, Any]:
        """Say yes to a pending approval."""
        ...

    async def decline(self, id: str) -> dict[str, Any]:
        """Say no to a pending approval."""
        ...

    async def alertmanager(self, body: bytes) -> dict[str, Any]:
        """Take a post of Alertmanager's webhook; when this returns it is stored.

        Raises `Senseless` for a body that no Alertmanager sends, `TryLater` or `StoreError` where it was not stored.
        """
        ...
