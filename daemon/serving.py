"""What serves now, as a stint observes it: the engine's state, its finished requests, and the gauges beside them."""

from __future__ import annotations

from collections.abc import Callable

from change.engine import EngineControl, EngineError, EngineState, RequestPage
from daemon.gauges import Gauges
from tuner.messages import Observation


class Serving:
    """One engine, looked at once a second."""

    def __init__(self, control: EngineControl, gauges: Callable[[float], Gauges]) -> None:
        self._control = control
        self._gauges = gauges
        self._since = -1

    def begin(self) -> None:
        """A stint begins: what finished before says nothing about it."""
        self._since = -1

    async def state(self) -> EngineState | None:
        """The engine's state, None while it is out of reach."""
        try:
            return await self._control.state()
        except EngineError:
            return None

    async def observe(self, now: float) -> Observation:
        """One look; what could not be read is None in it."""
        state = await self.state()
        page: RequestPage | None = None
        if state is not None:
            try:
                page = await self._control.requests(max(self._since, 0))
            except EngineError:
                page = None
        if page is not None:
            if self._since < 0:
                page = RequestPage(page.now, page.next_since, 0, (), page.gaps)
            self._since = page.next_since
        seen = self._gauges(now)
        return Observation(
            state,
            page,
            seen.running,
            seen.waiting,
            seen.temperature,
            seen.watts,
            seen.npus,
            seen.errors,
            seen.alert,
        )
