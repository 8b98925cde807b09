"""What is known of the host's knobs: read now and then, and told by the campaign that moves them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from change.host import HostControl, HostError
from change.host_knobs import HOST_KNOBS

FRESH_SECONDS = 30.0
"""To read them takes long beside a large engine, and a page may be loaded often."""


class HostValues:
    """The values in force of the knobs that may be changed here, as texts."""

    def __init__(self, hand: HostControl) -> None:
        self._hand = hand
        self._values: dict[str, str] = {}
        self._seen: float | None = None
        self._read_at: float | None = None

    @property
    def known(self) -> Mapping[str, str]:
        """As far as they are known, with no I/O."""
        return self._values

    def shown(self) -> dict[str, Any] | None:
        """The values and when they were seen (Unix seconds), None before the first look."""
        return {"values": dict(self._values), "seen": self._seen} if self._values else None

    def told(self, campaign: Mapping[str, Any] | None, now: float) -> None:
        """Take in what a campaign's status says is in force."""
        values = ((campaign or {}).get("in_force") or {}).get("values") or {}
        if of_the_host := {name: value for name, value in values.items() if name in HOST_KNOBS}:
            self._values.update(of_the_host)
            self._seen = now

    async def read(self, now: float, *, changed: bool = False) -> None:
        """Read them, if that was not just done or something was `changed` since; what cannot be read is unknown."""
        if not changed and self._read_at is not None and 0.0 <= now - self._read_at < FRESH_SECONDS:
            return
        self._read_at = self._seen = now
        try:
            choices = await self._hand.choices()
        except HostError:
            self._values = {}
        else:
            self._values = {name: texts[0] for name, texts in choices.items()}
