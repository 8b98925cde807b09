"""Whether the users of a fresh start are served within the SLO, as the history saw them."""

from __future__ import annotations

from collections.abc import Callable

from collectors.history import History
from tuner.settings import LatencyName, Limit, Slo

SETTLE_SHARE = 0.5
"""Share of the watch that is not judged: whoever waited at the gate comes at once, and waits once more."""
_HISTOGRAMS: dict[LatencyName, str] = {
    "ttft": "trimtab_engine_ttft_seconds",
    "itl": "trimtab_engine_itl_seconds",
    "e2e": "trimtab_engine_e2e_seconds",
}


class SloWatch:
    """Asked again and again after a start; a limit that was broken before the restart is not the start's fault."""

    def __init__(self, history: History, slo: Slo, watch_seconds: float, clock: Callable[[], float]) -> None:
        self._history = history
        self._limits = slo.limits
        self._watch = watch_seconds
        self._clock = clock
        self._begun: float | None = None
        self._before: frozenset[Limit] = frozenset()

    def before(self) -> None:
        """Look at what serves before it is stopped."""
        self._begun = None
        self._before = frozenset(self._broken(self._watch))

    async def __call__(self) -> str | None:
        """Say which limit is broken now, or None; unknown is not broken."""
        now = self._clock()
        if self._begun is None:
            self._begun = now
        judged_from = self._begun + SETTLE_SHARE * self._watch
        if now - judged_from < SETTLE_SHARE * self._watch / 2:
            return None
        broken = [limit for limit in self._broken(now - judged_from) if limit not in self._before]
        return "; ".join(f"{limit.key} is above {limit.seconds:g} s" for limit in broken) or None

    def _broken(self, window: float) -> list[Limit]:
        now = self._clock()
        found = []
        for limit in self._limits:
            value = self._history.quantile(_HISTOGRAMS[limit.metric], limit.quantile, now, window)
            if value is not None and value > limit.seconds:
                found.append(limit)
        return found
