"""Clients as a restart asks them to be: they honour `Retry-After` and try a refused connection again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import httpx2

from tests.real.traffic import OUTPUTS, PROMPTS, SentAway, Traffic, TrafficReport

if TYPE_CHECKING:
    from tests.real.engine import RealEngine

REFUSED_PAUSE_SECONDS = 0.5
"""Pause after a refused connection; the server gives none."""
LONGEST_PAUSE_SECONDS = 5.0


class PatientTraffic(Traffic):
    """`Traffic` whose clients wait out a restart; `waits` holds what each that had to wait spent, in seconds.

    A request that was let in and then broke is a failure as before: it is not sent again. Its pause is what the server
    says, at most `LONGEST_PAUSE_SECONDS`.
    """

    def __init__(
        self,
        engine: RealEngine,
        rate: float,
        *,
        seed: int = 1,
        patience: float = 300.0,
        prompts: Sequence[tuple[int, float]] = PROMPTS,
        outputs: tuple[int, int] = OUTPUTS,
    ) -> None:
        super().__init__(engine, rate, seed=seed, patience=patience, prompts=prompts, outputs=outputs)
        self.waits: list[float] = []
        self.refused = 0
        """Connections that nobody took."""
        self.sent_away = 0
        """Answers 503 with `Retry-After`."""

    async def _streamed(
        self, client: httpx2.AsyncClient, body: dict[str, object], report: TrafficReport
    ) -> int:
        begin = time.monotonic()
        while True:
            attempt = time.monotonic()
            try:
                tokens = await super()._streamed(client, body, report)
            except httpx2.ConnectError:
                self.refused += 1
                pause = REFUSED_PAUSE_SECONDS
            except SentAway as away:
                self.sent_away += 1
                pause = min(away.seconds, LONGEST_PAUSE_SECONDS)
            else:
                if attempt > begin:
                    self.waits.append(attempt - begin)
                return tokens
            await asyncio.sleep(pause)
