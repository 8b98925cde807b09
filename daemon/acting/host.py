"""Host changes by a playbook: through the host lane's journal and locks, and back by its exact undo."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from change.host import HostChange, HostError
from change.host_knobs import HOST_KNOBS, parse_change
from change.journal import Journal, JournalUnwritable
from change.lock import LockError
from change.steps import ChangeRefused
from daemon.acting.deed import RunContext
from daemon.host_lane import HostLane
from rules.actions import Action, ActionRefused, Blast, Outcome, Plan
from store import StoreError


class HostValues:
    """`set_host`: knobs of the host lane, such as `placement: nearest`."""

    preempts = True

    def __init__(self, lane: HostLane, journal: Journal) -> None:
        self._lane = lane
        self._journal = journal

    async def plan(self, action: Action, context: RunContext, now: float) -> Plan:
        """Say from what to what; refused for a knob that this host has not, or that is not allowed."""
        asked = _changes(action.arguments)
        before: dict[str, str | None] = {}
        try:
            for one in asked:
                why = await self._lane.hand.refusal(one.knob)
                if why is not None:
                    raise ActionRefused(why)
                before[one.knob] = (await self._lane.hand.read(one.knob)).value
        except HostError as error:
            raise ActionRefused(str(error)) from error
        new = [one for one in asked if before[one.knob] != one.value]
        if not new:
            told = ", ".join(f"{one.knob}={one.value}" for one in asked)
            raise ActionRefused(f"nothing to change: {told} is in force already")
        text = ", ".join(f"{one.knob} from {before[one.knob] or 'unknown'} to {one.value}" for one in new)
        blast: Blast = "node" if any(HOST_KNOBS[one.knob].scope == "node" for one in new) else "engine"
        undo = {"actor": context.actor, "set": {one.knob: one.value for one in new}}
        return Plan(f"set {text} on the host", blast, True, undo)

    async def act(self, action: Action, plan: Plan, context: RunContext, now: float) -> Outcome:
        """Set what the plan said."""
        undo = plan.undo or {}
        try:
            done = await self._lane.apply(_changes(undo.get("set", {})), context.actor, now)
        except (ChangeRefused, LockError, JournalUnwritable) as error:
            raise ActionRefused(str(error)) from error
        except (HostError, StoreError) as error:
            return Outcome(False, f"the host failed: {error}")
        return _outcome(done)

    async def undo(self, undo: Mapping[str, Any], context: RunContext, now: float) -> Outcome:
        """Take back what stands of it, if nothing newer stands over it."""
        try:
            standing = self._journal.standing(self._lane.boot_id(), "host")
            mine = [
                entry
                for entry in standing
                if entry.actor == undo["actor"] and _knobs(entry.change) == {*undo["set"]}
            ]
            if not mine:
                return Outcome(True, "nothing stands of this change: there is nothing to put back")
            newest = standing[-1]
            if newest.id != mine[-1].id:
                return Outcome(
                    False,
                    f"change {newest.id} of {newest.actor} stands over it: take both back with `trimtab rollback`",
                )
            return _outcome(await self._lane.rollback(1, context.actor, now))
        except (ChangeRefused, LockError, JournalUnwritable, HostError, StoreError) as error:
            return Outcome(False, f"the host could not be put back: {error}")


def _changes(values: Mapping[str, Any]) -> list[HostChange]:
    if not values:
        raise ActionRefused("the action names no knob: give at least one, as in {placement: nearest}")
    try:
        return [parse_change(f"{knob}={_text(value)}") for knob, value in values.items()]
    except ValueError as error:
        raise ActionRefused(str(error)) from error


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _knobs(change: Mapping[str, Any]) -> set[str]:
    return {*change}


def _outcome(done: Mapping[str, Any]) -> Outcome:
    figures = {
        "journal_entry": done["entry"],
        "requested": done["requested"],
        "before": done["before"],
        "effective": done["effective"],
    }
    if done["outcome"] == "done":
        told = ", ".join(f"{name}={value}" for name, value in done["requested"].items())
        return Outcome(True, f"in force on the host: {told}", figures)
    return Outcome(False, f"the host was put back: {done['reason']}", figures)
