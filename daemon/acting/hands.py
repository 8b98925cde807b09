"""The hands of playbooks: each action by its own deed, one at a time, after a running trial was ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from daemon.acting.captures import Captures
from daemon.acting.deed import Deed, RunContext
from daemon.acting.preempt import Preempt
from rules.actions import (
    Action,
    ActionKind,
    ActionRefused,
    CaptureKind,
    Outcome,
    Plan,
)

BY_HAND = RunContext("run-0", "by hand")

Hindrance = Callable[[], str | None]
"""Why what was ordered may not be done any more, None while it may."""


class ActingHands:
    """`rules.actions.Hands` over what is configured; `of` gives the same hands for one run."""

    def __init__(
        self,
        deeds: Mapping[ActionKind, Deed],
        captures: Captures,
        preempt: Preempt,
        *,
        context: RunContext = BY_HAND,
        turn: asyncio.Lock | None = None,
        hindrance: Hindrance = lambda: None,
    ) -> None:
        """`turn` is held while something is changed: what has one in common changes one thing at a time.

        The turn may be long in coming: `hindrance` is asked once it is there. Putting back is never hindered.
        """
        self._deeds = deeds
        self._captures = captures
        self._preempt = preempt
        self._context = context
        self._turn = asyncio.Lock() if turn is None else turn
        self._hindrance = hindrance

    def of(self, context: RunContext, hindrance: Hindrance = lambda: None) -> ActingHands:
        """The same hands, with every change and hook told for which run it is."""
        return ActingHands(
            self._deeds,
            self._captures,
            self._preempt,
            context=context,
            turn=self._turn,
            hindrance=hindrance,
        )

    async def plan(self, action: Action, now: float) -> Plan:
        """See `Hands`."""
        return await self._deed(action).plan(action, self._context, now)

    async def act(self, action: Action, plan: Plan, now: float) -> Outcome:
        """See `Hands`; a running trial is ended first, and what came of that is told."""
        deed = self._deed(action)
        async with self._turn:
            self._check()
            ended = await self._clear(deed, now)
            try:
                self._check()
                done = await deed.act(action, plan, self._context, now)
            except ActionRefused as refused:
                raise refused if ended is None else ActionRefused(f"{refused}; {ended}") from refused
        return done if ended is None else Outcome(done.ok, f"{done.text}; {ended}", done.figures)

    async def undo(self, action: Action, undo: Mapping[str, Any], now: float) -> Outcome:
        """See `Hands`."""
        try:
            deed = self._deed(action)
        except ActionRefused as refused:
            return Outcome(False, str(refused))
        async with self._turn:
            await self._clear(deed, now)
            return await deed.undo(undo, self._context, now)

    async def capture(self, kind: CaptureKind, seconds: float, now: float) -> Outcome:
        """See `Hands`; a profile makes the engine slower, so that no trial may run meanwhile."""
        if kind != "msprof":
            return await self._captures.take(kind, seconds, now)
        async with self._turn:
            self._check()
            await self._preempt.clear(f"{self._context.actor} records a profile", now)
            return await self._captures.take(kind, seconds, now)

    def _check(self) -> None:
        why = self._hindrance()
        if why is not None:
            raise ActionRefused(why)

    async def _clear(self, deed: Deed, now: float) -> str | None:
        return await self._preempt.clear(f"{self._context.actor} acts", now) if deed.preempts else None

    def _deed(self, action: Action) -> Deed:
        deed = self._deeds.get(action.kind)
        if deed is None:
            raise ActionRefused(f"{action.kind} is not possible here")
        return deed
