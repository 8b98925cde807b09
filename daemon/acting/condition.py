"""What an engine is doing just before a playbook restarts it: dead, stalled or serving, or in somebody's own start."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Literal

from change.engine import EngineControl, EngineError, PluginAbsent
from change.server import ServerError, ServerState
from collectors.engines.stall import rank_stalls
from collectors.history import History
from collectors.sample import labels
from daemon.cold import Cold
from rules.actions import ActionRefused

ANSWER_SECONDS = 2.0
"""An engine answers its plugin between two steps: longest wait for one answer."""
PAUSE_SECONDS = 3.0
LOOKS_SECONDS = 15.0
"""Looks over so long must all fail, and no token come, before an engine counts as stalled by its silence alone."""
TOKEN_SECONDS = 10.0
"""How long one token may take where the counters stand still already."""
FIGURES_SECONDS = 20.0
"""So long without a step or a token, with requests running, is a stall to which one failed look is proof enough."""
VERDICT_SECONDS = 60.0
"""How long a stall that was found needs only one more look: between an act's plan and the act."""
NOTE_SECONDS = 5.0
SERVING_SOURCES = ("vllm", "sglang", "mindie")

Condition = Literal["dead", "stalled", "serving"]


class EngineCondition:
    """Remembers which run of the engine has answered: one that never did may be loading, by whoever started it."""

    def __init__(
        self,
        cold: Cold,
        control: EngineControl,
        history: History,
        *,
        load_seconds: float,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        """`load_seconds` is how long a start may take before it counts as hung."""
        self._cold = cold
        self._control = control
        self._history = history
        self._load_seconds = load_seconds
        self._timer = timer
        self._noted = float("-inf")
        self._run: tuple[str | None, float] = None, 0.0
        self._answered: str | None = None
        self._plugin = True
        self._stalled: tuple[str | None, float] = None, float("-inf")

    @property
    def served(self) -> bool:
        """Whether the run that was seen last has answered."""
        return self._answered is not None and self._answered == self._run[0]

    async def tick(self, now: float) -> None:
        """Note now and then which run answers; `now` is a Unix time, as those of the readings are."""
        if 0 <= now - self._noted < NOTE_SECONDS:
            return
        self._noted = now
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                self._see(await self._cold.state(), now)
        except (ServerError, TimeoutError):
            return  # Whoever wants to restart it is told.

    async def look(self, now: float) -> Condition:
        """Say what it is doing; takes up to 15 s where it is silent.

        Raises `ServerError`, and `ActionRefused` while a start that is not ours is under way.
        """
        begun = self._timer()
        state = await self._cold.state()
        self._see(state, now)
        if state.starting:
            raise ActionRefused("its own start is under way: whoever started it is waited for")
        if not state.running:
            return "dead"
        if await self._answers():
            self._answered = state.identity
            return "serving"
        token = asyncio.create_task(_within(LOOKS_SECONDS, self._cold.gives_a_token))
        try:
            return await self._silent(now, begun, token)
        finally:
            token.cancel()
            await asyncio.gather(token, return_exceptions=True)

    async def _silent(self, now: float, begun: float, token: asyncio.Task[bool]) -> Condition:
        """Look again and again at one that did not answer at once."""
        while True:
            at = now + self._timer() - begun
            state = await self._cold.state()
            self._see(state, at)
            if not state.running:
                return "dead"
            self._refuse_a_start(at)
            if self._is_stalled(at, self._timer() - begun, token):
                self._stalled = state.identity, self._timer()
                return "stalled"
            await asyncio.wait([token], timeout=PAUSE_SECONDS)
            if (token.done() and token.result()) or await self._answers():
                self._answered = state.identity
                return "serving"
            if token.done():
                await asyncio.sleep(PAUSE_SECONDS)

    def _refuse_a_start(self, now: float) -> None:
        left = self._load_seconds - (now - self._run[1])
        if not self.served and left > 0:
            raise ActionRefused(
                "its own start is under way: this run of it has not answered yet, and may load for another "
                f"{left:.0f} s"
            )

    def _see(self, state: ServerState, now: float) -> None:
        if state.identity != self._run[0]:
            self._run = state.identity, now
        if state.running and not state.starting and self._page_answered() > self._run[1]:
            # Read after this run was first seen: no other can have answered.
            self._answered = state.identity

    def _page_answered(self) -> float:
        """When the tuned engine's page was read last, as a Unix time."""
        times = [float("-inf")]
        for source in SERVING_SOURCES:
            found = self._history.latest("trimtab_collector_success", labels(collector=source))
            if found is not None and found.value == 1.0:
                times.append(found.time)
        return max(times)

    async def _answers(self) -> bool:
        """Whether the plugin answers, once."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._control.state()
        except PluginAbsent:
            self._plugin, self._answered = False, self._run[0]  # Its server said so.
            return False
        except (EngineError, TimeoutError):
            self._plugin = True
            return False
        return True

    def _is_stalled(self, now: float, silent: float, token: asyncio.Task[bool]) -> bool:
        """Whether what failed in `silent` seconds is enough; without a plugin it takes a token that does not come."""
        name, found = self._stalled
        known = name == self._run[0] and self._timer() - found < VERDICT_SECONDS
        if known or any(rank_stalls(self._history, now, FIGURES_SECONDS).values()):
            return self._plugin or token.done() or silent >= TOKEN_SECONDS
        return silent >= LOOKS_SECONDS


async def _within(seconds: float, ask: Callable[[], Awaitable[bool]]) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await ask()
    except TimeoutError:
        return False
