"""The hands of playbooks in a simulated replica: `rules.actions.Hands` over its engine, host, starts and users."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from change.clock import Clock
from change.host import HostChange, HostError
from rules.actions import Action, ActionRefused, Blast, CaptureKind, Outcome, Plan
from sim.faults.host import NEAR_NODE
from sim.faults.node import TroubledNode
from sim.hand import ValueRefused

_FACTOR = re.compile(r"x(\d+(?:\.\d+)?)")
_BATCH = ("batch_max_tokens", "max_num_seqs")
_NEAREST = {
    "placement": f"split:{NEAR_NODE}",
    "memory": f"node:{NEAR_NODE}",
    "shared_memory": f"node:{NEAR_NODE}",
}
SWITCH_SECONDS = 4.0
"""What the operator's program takes to switch traffic over."""
POLL_SECONDS = 1.0
LONGEST_START_SECONDS = 600.0
ALONE = (
    "leaving this replica within 30 s is impossible: there is no second replica that could take its traffic"
)

Quiet = Callable[[float], bool]


class SimulatedHands:
    """Acts at once, in the node's time; must be used inside `sim.virtual_time.live`.

    `quiet` says whether a restart that may wait is made at a time (Unix seconds). `away_seconds` tells how long traffic
    took to leave, once it has.
    """

    def __init__(self, node: TroubledNode, clock: Clock, quiet: Quiet = lambda now: True) -> None:
        self._node = node
        self._clock = clock
        self._quiet = quiet
        self.done: list[Action] = []
        self.restarting = False
        """Whether a restart of ours is under way, as the daemon's own gauge says it."""
        self.away_seconds: float | None = None

    async def plan(self, action: Action, now: float) -> Plan:
        """See `Hands`."""
        node, given = self._node, dict(action.arguments)
        match action.kind:
            case "set_knobs":
                return self._hot_plan(given)
            case "expand_batch":
                return self._hot_plan({name: f"x{float(given['factor']):g}" for name in _BATCH})
            case "set_host":
                before = {name: node.tended.values.get(name) for name in given}
                unknown = [name for name, value in before.items() if value is None]
                if unknown:
                    raise ActionRefused(f"this host has no {', '.join(unknown)}")
                if self._asked_of_host(given) == before:
                    raise ActionRefused("nothing to change: the host is set so already")
                return _plan(f"set {given} on the host", "node", {"host": before})
            case "restart":
                if node.starting:
                    raise ActionRefused("a start is under way already")
                if given.get("when") == "quietest" and not self._quiet(now):
                    raise ActionRefused("this restart waits for the quietest window")
                self._refuse_serving(action)
                settings = given.get("settings") or {}
                return _plan(
                    f"restart the engine with {settings}", "engine", {"launch": node.launch_values()}
                )
            case "scale_up":
                if not node.second_replica:
                    raise ActionRefused("there is no hook that could start another replica")
                return _plan("start another replica", "service", {"replicas": node.replicas})
            case "traffic_away":
                if not node.second_replica:
                    raise ActionRefused(ALONE)
                return _plan("send new requests to the other replica", "service", {"away": node.away})
            case "notify":
                return _plan("tell people", "none", None)

    async def act(self, action: Action, plan: Plan, now: float) -> Outcome:
        """See `Hands`."""
        self._refuse_serving(action)
        self.done.append(action)
        node = self._node
        match action.kind:
            case "set_knobs" | "expand_batch":
                assert plan.undo is not None
                return self._set(plan.undo["set"])
            case "set_host":
                return await self._set_host(self._asked_of_host(action.arguments))
            case "restart":
                values = node.launch_values()
                settings = action.arguments.get("settings") or {}
                return await self._restart(
                    {name: _scaled(value, values.get(name)) for name, value in settings.items()}
                )
            case "scale_up":
                await self._clock.sleep(SWITCH_SECONDS)
                count = node.replicas + int(action.arguments.get("replicas", 1))
                node.order(count)
                return Outcome(True, f"{count} replicas are ordered")
            case "traffic_away":
                return await self._send_away(True)
            case "notify":
                return Outcome(True, "told")

    async def undo(self, action: Action, undo: Mapping[str, Any], now: float) -> Outcome:
        """See `Hands`."""
        node = self._node
        if "values" in undo:
            return self._set(undo["values"])
        if "host" in undo:
            return await self._set_host(undo["host"])
        if "launch" in undo:
            return await self._restart(undo["launch"])
        if "replicas" in undo:
            node.scale(int(undo["replicas"]))
        if "away" in undo:
            return await self._send_away(bool(undo["away"]))
        return Outcome(True, "put back")

    async def capture(self, kind: CaptureKind, seconds: float, now: float) -> Outcome:
        """See `Hands`; there is nothing to record here but time."""
        await self._clock.sleep(min(seconds, 10.0))
        return Outcome(True, f"{kind} recorded", {"path": f"captures/{kind}"})

    # ------------------------------------------------------------------ inside

    def _refuse_serving(self, action: Action) -> None:
        serves = not self._node.control.down and not self._node.page_frozen
        if serves and action.arguments.get("when") == "down":
            raise ActionRefused("it serves: this restart is for an engine that is dead or stalled")

    def _hot_plan(self, asked: Mapping[str, Any]) -> Plan:
        if self._node.control.down:
            raise ActionRefused("the engine does not run: it cannot be changed")
        state = self._node.control.read_state()
        new = {}
        for name, value in asked.items():
            if name not in state.values:
                raise ActionRefused(f"this engine has no {name}")
            number = _scaled(value, state.values[name])
            number = min(max(number, state.floors.get(name, 0.0)), state.ceilings.get(name, number))
            number = number if name == "watermark" else float(round(number))
            if number != state.values[name]:
                new[name] = number
        if not new:
            raise ActionRefused("nothing to change: these values are in force, or their bounds")
        before = {name: state.values[name] for name in new}
        return _plan(f"set {new} in the running engine", "engine", {"set": new, "values": before})

    def _set(self, values: Mapping[str, float]) -> Outcome:
        control = self._node.control
        if control.down:
            return Outcome(True, "the engine is down: what was set went with it")
        try:
            answer = control.apply(dict(values), if_epoch=control.read_state().epoch, lease_seconds=None)
        except ValueRefused as error:
            return Outcome(False, str(error))
        return Outcome(True, f"in force: {answer.effective}", {"effective": dict(answer.effective)})

    @staticmethod
    def _asked_of_host(given: Mapping[str, Any]) -> dict[str, str]:
        return {
            name: _NEAREST.get(name, str(value)) if value == "nearest" else str(value)
            for name, value in given.items()
        }

    async def _set_host(self, values: Mapping[str, Any]) -> Outcome:
        for name, value in values.items():
            try:
                await self._node.tended.apply(HostChange(name, str(value)))
            except HostError as error:
                return Outcome(False, str(error))
        self._node.recost()
        return Outcome(True, f"in force: {dict(values)}")

    async def _restart(self, settings: Mapping[str, float]) -> Outcome:
        node, begun = self._node, self._clock.now()
        self.restarting = True
        try:
            node.die(patient=True)
            node.start_engine(settings)
            while node.starting and self._clock.now() - begun < LONGEST_START_SECONDS:
                await self._clock.sleep(POLL_SECONDS)
        finally:
            self.restarting = False
        seconds = self._clock.now() - begun
        if node.control.down:
            return Outcome(
                False, f"the engine ended in its start, after {seconds:.0f} s", {"seconds": seconds}
            )
        return Outcome(True, f"the engine serves again after {seconds:.0f} s", {"seconds": seconds})

    async def _send_away(self, away: bool) -> Outcome:
        begun = self._clock.now()
        await self._clock.sleep(SWITCH_SECONDS)
        self._node.send_away(away)
        seconds = self._clock.now() - begun
        if away:
            self.away_seconds = seconds
        return Outcome(
            True, f"switched over in {seconds:.0f} s", {"seconds": seconds, "within_30_seconds": True}
        )


def _plan(text: str, blast: Blast, undo: Mapping[str, Any] | None) -> Plan:
    return Plan(text, blast, undo is not None, undo)


def _scaled(value: Any, current: float | None) -> float:
    found = _FACTOR.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return float(value)
    if current is None:
        raise ActionRefused(f"{value} of a value that is not known")
    return float(found[1]) * current
