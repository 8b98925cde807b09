"""A restart by a playbook: at once for an engine that is dead or stalled, else at once or in the quietest time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from change.catalogue.knob import Engine
from change.journal import Journal
from change.restart.order import RestartResult
from change.server import ServerError, Setting, Settings
from change.steps import ChangeRefused
from daemon.acting.condition import Condition, EngineCondition
from daemon.acting.deed import RunContext
from daemon.acting.quiet import QuietTimes, Unknown
from daemon.acting.start_settings import Asked, asked, needs_values
from daemon.cold import Cold
from rules.actions import Action, ActionRefused, Outcome, Plan
from store import StoreError
from store.models import JournalEntry

NO_HAND = "nothing here may restart the engine: say how it is started in engine.server.hand"


class RestartEngine:
    """`restart`: {settings: {}, when: now | quietest | down}; without settings with the same command again.

    An engine that is dead or stalled is restarted in haste, outside any window and budget, as its users wait already.
    """

    preempts = True

    def __init__(
        self,
        cold: Cold | None,
        condition: EngineCondition | None,
        journal: Journal,
        quiet: QuietTimes,
        *,
        engine: Engine = "vllm",
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        """`cold` and `condition` are None without a hand; `engine` is whose settings they are;
        `timer` counts the seconds that are told.
        """
        self._cold = cold
        self._condition = condition
        self._journal = journal
        self._quiet = quiet
        self._engine: Engine = engine
        self._timer = timer

    async def plan(self, action: Action, context: RunContext, now: float) -> Plan:
        """Say with what and when; refused without a hand, during another restart, or with a flag that cannot work.

        `down` is refused too while the engine serves.
        """
        cold = self._hand()
        if _when(action) == "quietest":
            self._wait_for_quiet(now)
        if cold.running:
            raise ActionRefused("a restart is under way already: it is waited for, not doubled")
        condition = await self._look(action, now)
        wanted = await self._asked(cold, action)
        settings = wanted.settings
        problems = await cold.problems(settings) if settings else []
        if problems:
            raise ActionRefused("; ".join(problems))
        hurry = {"dead": ", which has ended,", "stalled": ", which answers nothing, without waiting for it"}
        text = f"restart the engine{hurry.get(condition, '')} {_words(settings)}"
        if wanted.unknown:
            text += f" ({', '.join(wanted.unknown)} left out, as nobody knows what it is now)"
        undo = {"actor": context.actor, "settings": settings} if settings else None
        return Plan(f"{text}; its users wait meanwhile", "engine", undo is not None, undo)

    async def act(self, action: Action, plan: Plan, context: RunContext, now: float) -> Outcome:
        """Restart, and tell how long its users waited and what of that was Trimtab's own."""
        cold = self._hand()
        settings = dict((plan.undo or {}).get("settings", {}))
        begun = self._timer()
        condition = await self._look(action, now)
        result = await cold.restart(
            settings, actor=context.actor, kind="manual", urgent=condition != "serving"
        )
        if result.outcome == "refused":
            raise ActionRefused(f"nothing was restarted ({result.phase}): {result.reason}")
        return _outcome(result, condition, self._timer() - begun)

    async def undo(self, undo: Mapping[str, Any], context: RunContext, now: float) -> Outcome:
        """Restart with what served before, if this restart is the newest that stands."""
        if self._cold is None:
            return Outcome(False, NO_HAND)
        try:
            standing = [entry for entry in self._journal.standing_anywhere("") if entry.lane == "cold"]
            mine = [entry for entry in standing if _is(entry, undo)]
            if not mine:
                return Outcome(True, "no restart of this run stands: there is nothing to put back")
            if standing[-1].id != mine[-1].id:
                newer = standing[-1]
                return Outcome(
                    False,
                    f"restart {newer.id} of {newer.actor} came after it: take it back with `trimtab rollback`",
                )
            entry = await self._cold.undo([mine[-1]], context.actor, now)
        except (ChangeRefused, ServerError, StoreError) as error:
            return Outcome(False, f"the settings from before could not be put back: {error}")
        figures = {"journal_entry": entry.id, "down_seconds": (entry.effective or {}).get("down_seconds")}
        if entry.outcome == "done":
            return Outcome(True, "the engine serves as before", figures)
        return Outcome(False, f"the engine did not go back: {entry.reason}", figures)

    # ------------------------------------------------------------------ what there is

    def _hand(self) -> Cold:
        if self._cold is None:
            raise ActionRefused(NO_HAND)
        return self._cold

    async def _look(self, action: Action, now: float) -> Condition:
        if self._condition is None:
            raise ActionRefused(NO_HAND)
        try:
            condition = await self._condition.look(now)
        except ServerError as error:
            raise ActionRefused(str(error)) from error
        if condition == "serving" and _when(action) == "down":
            # Its page may fail alone, and a step that took long is over by now.
            raise ActionRefused("it serves: this restart is for an engine that is dead or stalled")
        return condition

    async def _asked(self, cold: Cold, action: Action) -> Asked:
        in_force: Settings = {}
        if needs_values(action.arguments):
            try:
                # Of an engine that is gone: what it started with when it was seen last.
                last = self._journal.last_launch()
                in_force = {**({} if last is None else last.values), **await cold.settings()}
            except (ServerError, StoreError) as error:
                raise ActionRefused(f"the settings in force cannot be read: {error}") from error
        return asked(action.arguments, in_force, self._engine)

    def _wait_for_quiet(self, now: float) -> None:
        """Refuse what can wait until it is quiet; `PlaybookDriver` has the playbook walk again then."""
        try:
            begins, name = self._quiet.next(now), self._quiet.name(now)
        except Unknown as error:
            raise ActionRefused(str(error)) from error
        if begins > now:
            raise ActionRefused(
                f"this restart waits for {name}, which begins in {(begins - now) / 3600:.1f} h: the playbook walks "
                "again then, if the alert still fires"
            )


def _when(action: Action) -> str:
    when = action.arguments.get("when", "now")
    if when in ("now", "quietest", "down"):
        return str(when)
    raise ActionRefused(f"when is {when!r}: expected now, quietest or down")


def _words(settings: Mapping[str, Setting]) -> str:
    if not settings:
        return "with the same settings"
    return "with " + ", ".join(f"{name}={value}" for name, value in settings.items())


def _is(entry: JournalEntry, undo: Mapping[str, Any]) -> bool:
    return bool(entry.actor == undo["actor"] and (entry.change.get("settings") or {}) == undo["settings"])


def _outcome(result: RestartResult, condition: Condition, seconds: float) -> Outcome:
    load = result.seconds.get("load", 0.0)
    figures: dict[str, Any] = {
        "journal_entry": result.entry_id,
        "engine_was": condition,
        "seconds": round(seconds, 3),
        "load_seconds": round(load, 3),
        # All that is not the engine's own load: also what its drain and its end took.
        "own_seconds": round(max(0.0, seconds - load), 3),
        "down_seconds": round(result.down_seconds, 3),
        "phases": {phase: round(took, 3) for phase, took in result.seconds.items()},
        "effective": dict(result.effective),
    }
    if result.outcome == "served":
        return Outcome(True, f"the engine serves again after {seconds:.1f} s: {result.reason}", figures)
    if result.sign is not None:
        figures["sign"] = result.sign
    return Outcome(False, f"{result.outcome} ({result.phase}): {result.reason}", figures)
