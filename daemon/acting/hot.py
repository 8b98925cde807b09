"""Hot changes by a playbook: journaled, verified, for good, and taken back only where they still stand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from change import apply as changes
from change.engine import EngineControl, EngineError, EngineState, Values
from change.journal import LEASED, Journal, JournalUnwritable, taken_along_by
from change.lock import EngineLock, LockError
from change.steps import ChangeRefused, Order, holding, make
from collectors.history import History
from daemon.acting.deed import RunContext
from daemon.acting.values import number, usual, wanted
from rules.actions import Action, ActionRefused, Outcome, Plan
from store import StoreError
from store.models import JournalEntry

BATCH_LIMITS = ("batch_max_tokens", "max_num_seqs")
FULL_KV_RATIO = 0.9
"""From here on more sequences at once are preempted, not served."""
MOST_FACTOR = 4.0
MOST_OVER_PROMOTED = 2.0
"""What was proved by a campaign is left by no more than this factor."""
KV_SECONDS = 60.0
"""An older reading of the KV cache says nothing about now."""


class HotValues:
    """`set_knobs`: values of the running engine, a number or a factor of the one in force."""

    preempts = True

    def __init__(self, control: EngineControl, journal: Journal, lock_dir: Path) -> None:
        self._control = control
        self._journal = journal
        self._lock_dir = lock_dir

    async def plan(self, action: Action, context: RunContext, now: float) -> Plan:
        """Say from what to what; refused for what the engine cannot take or holds already."""
        state = await self.proved()
        return self.planned(state, wanted(action.arguments, state, usual(self._journal, state)), context)

    async def act(self, action: Action, plan: Plan, context: RunContext, now: float) -> Outcome:
        """Set what the plan said, under the engine's lock; refused if the engine is another one than was planned for.

        Its way back would lead to values that nobody wants to keep: those of a trial, or of another boot.
        """
        undo = plan.undo or {}
        if not undo:
            raise ActionRefused("the plan of this change has no way back: it is not made")
        state = await self.state()
        lock = EngineLock(self._lock_dir, state.boot_id, context.actor)
        try:
            with holding(lock):
                _as_planned(await self.state(), undo)
                entry = await changes.change(
                    self._control,
                    self._journal,
                    undo["set"],
                    kind="manual",
                    actor=context.actor,
                    now=now,
                    lock=lock,
                )
        except (ChangeRefused, LockError, JournalUnwritable) as error:
            raise ActionRefused(str(error)) from error
        except (EngineError, StoreError) as error:
            return Outcome(False, f"the engine failed: {error}", {"requested": dict(undo["set"])})
        return _outcome(entry)

    async def undo(self, undo: Mapping[str, Any], context: RunContext, now: float) -> Outcome:
        """Put back the values from before; one that somebody has changed since is left as it is."""
        try:
            state = await self._control.state()
            with holding(EngineLock(self._lock_dir, state.boot_id, context.actor)):
                return await self._take_back(await self._control.state(), undo, context, now)
        except (ChangeRefused, LockError, JournalUnwritable, EngineError, StoreError) as error:
            return Outcome(False, f"the values from before could not be put back: {error}")

    async def state(self) -> EngineState:
        """The engine as it stands; raises `ActionRefused` where it cannot be asked."""
        try:
            return await self._control.state()
        except EngineError as error:
            raise ActionRefused(f"the engine cannot be changed while it runs: {error}") from error

    async def proved(self) -> EngineState:
        """The engine as it will stand when what is only tried in it has ended; raises `ActionRefused`.

        Who tries something now gives way before the act, so that a plan must not start from the values that are tried.
        """
        state = await self.state()
        if state.lease_remaining_seconds is None:
            return state
        try:
            tried = [
                entry
                for entry in self._journal.open_entries()
                if entry.boot_id == state.boot_id and entry.kind in LEASED
            ]
        except StoreError as error:
            raise ActionRefused(f"what is tried in the engine now is not known: {error}") from error
        values = dict(state.values)
        # The oldest holds what served before any of them.
        for entry in reversed(tried):
            values.update({name: value for name, value in entry.undo.items() if name in values})
        return replace(state, values=values)

    def planned(self, state: EngineState, values: Values, context: RunContext) -> Plan:
        """The plan of setting these; raises `ActionRefused` if they are in force already."""
        new = {name: value for name, value in values.items() if state.values[name] != value}
        if not new:
            told = ", ".join(f"{name} {value:g}" for name, value in values.items())
            raise ActionRefused(f"nothing to change: {told} is in force already, or its bound")
        before = {name: state.values[name] for name in new}
        text = ", ".join(f"{name} from {before[name]:g} to {value:g}" for name, value in new.items())
        undo = {"boot_id": state.boot_id, "actor": context.actor, "set": new, "values": before}
        return Plan(f"set {text} in the running engine", "engine", True, undo)

    async def _take_back(
        self, state: EngineState, undo: Mapping[str, Any], context: RunContext, now: float
    ) -> Outcome:
        standing = self._journal.standing(state.boot_id)
        here = state.boot_id == undo["boot_id"]
        mine = [entry for entry in standing if (_made if here else _took_along)(entry, undo)]
        if not mine and not here:
            return Outcome(True, "the engine has restarted since: what was set in it went with it")
        if not mine:
            return Outcome(True, "nothing stands of this change: there is nothing to put back")
        values = {
            name: value
            for name, value in undo["values"].items()
            if state.values.get(name) == undo["set"][name] and any(name in entry.change for entry in mine)
        }
        if not values:
            return Outcome(True, "somebody has set other values since: they are left as they are")
        # What a restart took along may hold values of others too, and those stand on.
        whole = here or mine[-1].change.keys() <= undo["set"].keys()
        order = Order("rollback", context.actor, values, undoes=(mine[-1].id,) if whole else ())
        return _outcome(await make(self._control, self._journal, state, order, now))


class ExpandBatch:
    """`expand_batch`: the batch limits times a factor, inside what the engine and what was proved allow."""

    preempts = True

    def __init__(self, hot: HotValues, journal: Journal, history: History) -> None:
        self._hot = hot
        self._journal = journal
        self._history = history

    async def plan(self, action: Action, context: RunContext, now: float) -> Plan:
        """Say from what to what; refused while the KV cache is nearly full, or its use is not known."""
        by = number("factor", action.arguments.get("factor", 1.5))
        if not 1.0 < by <= MOST_FACTOR:
            raise ActionRefused(f"factor {by:g}: expected more than 1 and at most {MOST_FACTOR:g}")
        usage = self._kv_usage(now)
        if usage is None:
            raise ActionRefused("how full the KV cache is is not known: a larger batch may not fit")
        if usage >= FULL_KV_RATIO:
            raise ActionRefused(
                f"the KV cache is {usage:.0%} full: a larger batch would only be preempted; add a replica, or shorten "
                "what is asked"
            )
        state = await self._hot.proved()
        names = [name for name in BATCH_LIMITS if name in state.values]
        if not names:
            raise ActionRefused("this engine has no batch limit that can be changed while it runs")
        values = wanted(dict.fromkeys(names, f"x{by:g}"), state)
        plan = self._hot.planned(state, self._within_proved(values, state), context)
        return replace(plan, seen=f"KV cache {usage:.0%} full")

    async def act(self, action: Action, plan: Plan, context: RunContext, now: float) -> Outcome:
        """As `set_knobs`."""
        usage = self._kv_usage(now)
        if usage is not None and usage >= FULL_KV_RATIO:
            raise ActionRefused(f"the KV cache is {usage:.0%} full by now")
        done = await self._hot.act(action, plan, context, now)
        return Outcome(done.ok, done.text, {**done.figures, "kv_cache_usage_ratio": usage})

    async def undo(self, undo: Mapping[str, Any], context: RunContext, now: float) -> Outcome:
        """As `set_knobs`."""
        return await self._hot.undo(undo, context, now)

    def _within_proved(self, values: Values, state: EngineState) -> dict[str, float]:
        """Hold values by what a campaign promoted, where one did; never below what is in force."""
        promoted = self._journal.promoted()
        proved = {} if promoted is None else promoted.values
        return {
            name: max(state.values[name], min(value, proved[name] * MOST_OVER_PROMOTED))
            if name in proved
            else value
            for name, value in values.items()
        }

    def _kv_usage(self, now: float) -> float | None:
        sample = self._history.latest("trimtab_engine_kv_cache_usage_ratio")
        if sample is None or not isinstance(sample.value, float) or now - sample.time > KV_SECONDS:
            return None
        return sample.value


def _as_planned(state: EngineState, undo: Mapping[str, Any]) -> None:
    """Raise `ActionRefused` where the way back of a plan is not what serves."""
    if state.boot_id != undo["boot_id"]:
        raise ActionRefused(
            "the engine has restarted since this was planned: nothing was changed in the new one"
        )
    other = [
        f"{name} is {state.values[name]:g} and was {before:g} when this was planned"
        for name, before in undo["values"].items()
        if name in undo["set"] and state.values[name] != before
    ]
    if other:
        raise ActionRefused(f"somebody has set other values: {'; '.join(other)}")


def _made(entry: JournalEntry, undo: Mapping[str, Any]) -> bool:
    return bool(entry.actor == undo["actor"] and entry.change == undo["set"])


def _took_along(entry: JournalEntry, undo: Mapping[str, Any]) -> bool:
    """Whether a restart of ours set a value of this change again in the boot it began."""
    kept = any(entry.change.get(name) == value for name, value in undo["set"].items())
    return entry.kind == "manual" and taken_along_by(entry) is not None and kept


def _outcome(entry: JournalEntry) -> Outcome:
    figures = {
        "journal_entry": entry.id,
        "requested": dict(entry.change),
        "effective": None if entry.effective is None else dict(entry.effective),
    }
    if entry.outcome == "done":
        told = ", ".join(f"{name} {value:g}" for name, value in entry.change.items())
        return Outcome(True, f"in force: {told}", figures)
    return Outcome(False, f"the engine was put back: {entry.reason}", figures)
