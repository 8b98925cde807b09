"""Tells the guardian of `trimtab serve` that an engine which ends by itself will be started again from here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from change.server import ServerError
from daemon.notices import Notices

GOOD_SECONDS = 20.0
RENEW_SECONDS = 5.0


class Pledge:
    """Renewed while it holds; let it run out, and the guardian ends with the engine as it always did."""

    def __init__(self, stay: Callable[[float], Awaitable[None]], notices: Notices) -> None:
        """`stay` gives it for so many seconds."""
        self._stay = stay
        self._notices = notices
        self._given = float("-inf")

    async def tick(self, now: float, willing: bool) -> None:
        """Renew it if it is time; one that nobody is willing to keep any more is taken back at once."""
        if not willing:
            if self._given > float("-inf"):
                self._given = float("-inf")
                await self._give(0.0)
            return
        if not self._given <= now < self._given + RENEW_SECONDS and await self._give(GOOD_SECONDS):
            self._given = now

    async def _give(self, seconds: float) -> bool:
        try:
            await self._stay(seconds)
        except ServerError as error:
            self._notices.say(
                "guardian", f"an engine that ends by itself is not started again: {error}", "info"
            )
            return False
        self._notices.over("guardian", "an engine that ends by itself is started again")
        return True
