"""The real clock."""

from __future__ import annotations

import asyncio
import time


class WallClock:
    """Real time; a `change.clock.Clock`."""

    def now(self) -> float:
        """Return Unix seconds."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """Let `seconds` pass."""
        await asyncio.sleep(seconds)
