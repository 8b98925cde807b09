"""Telling people: every webhook there is, and the page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from daemon.acting.deed import RunContext
from daemon.notices import Notices
from rules.actions import Action, ActionRefused, Outcome, Plan

MOST_CHARACTERS = 2000


class NoticeSink(Protocol):
    """Where words to people go."""

    async def notify(self, text: str, now: float) -> Mapping[str, str | None]:
        """Tell it everywhere; returns by the sink's name what went wrong there, None where it arrived."""
        ...


class Notify:
    """`notify`: a text to people, which changes nothing and cannot be taken back."""

    preempts = False

    def __init__(self, notices: Notices, sink: NoticeSink | None = None) -> None:
        self._notices = notices
        self._sink = sink

    async def plan(self, action: Action, context: RunContext, now: float) -> Plan:
        """Say what is told."""
        return Plan(f"tell people: {_text(action)}", "none", False)

    async def act(self, action: Action, plan: Plan, context: RunContext, now: float) -> Outcome:
        """Tell it; it fails only where no sink took it and one was configured."""
        text = f"{context.run} of playbook {context.playbook} ({context.target}): {_text(action)}"
        self._notices.say(f"playbook {context.playbook} says", text)
        if self._sink is None:
            return Outcome(True, "told on the page; no webhook is configured", {"webhooks": {}})
        told = dict(await self._sink.notify(text, now))
        failed = {name: why for name, why in told.items() if why is not None}
        figures = {"webhooks": {name: why or "told" for name, why in told.items()}}
        if told and len(failed) == len(told):
            return Outcome(False, f"no webhook took it: {'; '.join(map(str, failed.values()))}", figures)
        where = f"{len(told) - len(failed)} of {len(told)} webhooks" if told else "the page"
        return Outcome(True, f"told: {where}", figures)

    async def undo(self, undo: Mapping[str, Any], context: RunContext, now: float) -> Outcome:
        """Nothing: what was said was said."""
        return Outcome(True, "what was said was said")


def _text(action: Action) -> str:
    text = action.arguments.get("text")
    if not isinstance(text, str) or not text.strip():
        raise ActionRefused("notify needs a text: {text: ...}")
    plain = "".join(character if character.isprintable() else " " for character in text)
    return plain.strip()[:MOST_CHARACTERS]
