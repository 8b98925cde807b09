"""kill -9 of the daemon at random points of restarts and rollbacks, on the simulated hand in virtual time.

A kill lets nothing in the daemon run any more, while the engine and its own start or stop go on. A new daemon recovers
some time later, and may be killed in that as well.
"""

from __future__ import annotations

import contextlib
import inspect
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from change.apply import change, reapply_promoted
from change.apply import recover as recover_hot
from change.journal import Journal
from change.restart.command import same
from change.restart.order import RestartOrder
from change.restart.parts import Judges, Parts
from change.restart.recovery import recover
from change.restart.restart import Restart
from change.restart.roll_back import undo_restarts
from change.restart.settings import RestartSettings
from change.server import LaunchCommand
from change.undo import roll_back
from sim.node import Node
from sim.server_arguments import LAUNCH, render, settings_of
from sim.server_ground import SimulatedGround, SimulatedProbe
from sim.server_hand import FaultKind, SimulatedServer
from sim.virtual_time import NodeClock, live
from store import Store

START = 1_700_000_000.0
LEASE_SECONDS = 120.0
"""Longest that a gate may stay closed with nobody left who renews it."""
_ACTS = ("apply", "apply", "rollback", "trial")
_FAULTS: tuple[FaultKind | None, ...] = (None, None, None, "out_of_memory", "probe", "ignored", "slo", "hang")
_PROVED = {"batch_max_tokens": 512.0}
"""Hot values that serve by promotion in half of the runs."""
_NOTHING = -1


class Killed(BaseException):
    """The daemon is gone: nothing in it runs any more, least of all an exception handler."""


class Fate:
    """Counts the points at which the daemon may die, and lets it die at the chosen one."""

    def __init__(self) -> None:
        self.dies_at = _NOTHING
        self.dead = False
        self.where = ""
        self.seen: list[str] = []

    def plan(self, point: int) -> None:
        """A new daemon, that dies at its point number `point` (below 0: never)."""
        self.dies_at, self.dead, self.where, self.seen = point, False, "", []

    def pass_by(self, where: str) -> None:
        """One point."""
        if self.dead:
            raise Killed(where)
        if len(self.seen) == self.dies_at:
            self.dead, self.where = True, where
            raise Killed(where)
        self.seen.append(where)


class Mortal:
    """A port as a mortal daemon has it: it may die just before and just after each call."""

    def __init__(self, real: object, fate: Fate, *, plain: tuple[str, ...] = ()) -> None:
        self._real = real
        self._fate = fate
        self._plain = plain

    def __getattr__(self, name: str) -> Any:
        """The real attribute; a method with its two points."""
        real = getattr(self._real, name)
        if not callable(real) or name in self._plain:
            return real
        where = f"{type(self._real).__name__}.{name}"
        if inspect.iscoroutinefunction(real):

            async def call(*args: Any, **more: Any) -> Any:
                self._fate.pass_by(f"before {where}")
                answer = await real(*args, **more)
                self._fate.pass_by(f"after {where}")
                return answer

            return call

        def act(*args: Any, **more: Any) -> Any:
            self._fate.pass_by(f"before {where}")
            answer = real(*args, **more)
            self._fate.pass_by(f"after {where}")
            return answer

        return act


@dataclass(frozen=True, slots=True)
class Crash:
    """One kill and what came of it; `wrong` is empty if all held."""

    act: str
    fault: FaultKind | None
    where: str
    again: str
    ended: str
    promoted: bool
    wrong: tuple[str, ...]


class Stand:
    """One node whose daemon dies."""

    def __init__(self, store: Store, seed: int) -> None:
        self.node = Node("default", seed, START)
        self.fate = Fate()
        self.points: list[str] = []
        """The points at which the last daemon could have died."""
        clock = NodeClock(self.node)
        self.server = SimulatedServer(self.node, clock)
        self.ground = SimulatedGround(self.server)
        probe = SimulatedProbe(self.server, clock)
        self.journal = Journal(store, f"http://127.0.0.1:{seed}")

        def mortal(real: object, *plain: str) -> Any:
            return Mortal(real, self.fate, plain=plain)

        self.parts = Parts(
            mortal(self.server),
            mortal(self.node.control),
            mortal(self.ground),
            mortal(probe),
            mortal(clock, "now"),
            cast(Journal, mortal(self.journal)),
            settings=RestartSettings(step_seconds={"weights": 60.0}, watch_seconds=5.0, drain_seconds=300.0),
            judges=Judges(watch=probe.watch, settings=settings_of),
        )
        self.node.advance(START + 10.0)

    def live(self, act: Callable[[], Any], point: int) -> str:
        """Let a new daemon act, and die at a point; returns where it died, or nothing."""
        self.fate.plan(point)
        with contextlib.suppress(Killed):
            live(self.node, act())
        where, self.points = self.fate.where, self.fate.seen
        self.fate.plan(_NOTHING)
        return where

    def apply(self, kind: Any, **settings: Any) -> Callable[[], Any]:
        """A restart with settings over the command of now."""
        order = RestartOrder(settings, render(self.server.run.command, settings), "operator", kind)
        return lambda: Restart(self.parts, order).run()

    def roll_back(self) -> Callable[[], Any]:
        """One change back."""
        return lambda: roll_back(
            self.parts.journal,
            self.node.control.boot_id,
            1,
            {"cold": undo_restarts(self.parts)},
            actor="operator",
            now=self.parts.clock.now,
        )

    async def promote(self) -> None:
        """A hot campaign has promoted something before all this."""
        await change(
            self.node.control,
            self.journal,
            _PROVED,
            kind="promotion",
            actor="campaign 1",
            now=self.node.now,
            campaign_id=1,
        )

    async def recover(self) -> None:
        """What a daemon does at its start: restarts first, then changes of what serves."""
        await recover(self.parts)
        now = self.parts.clock.now()
        await recover_hot(self.parts.control, self.parts.journal, now)
        await reapply_promoted(self.parts.control, self.parts.journal, now)


def crash(store: Store, seed: int) -> Crash:
    """One node, one act, one kill at a random point of it (and every third time one more in the recovery)."""
    draw = random.Random(seed)
    act = draw.choice(_ACTS)
    fault = draw.choice(_FAULTS)
    settings = {"block_size": 64, "max_num_seqs": draw.choice((64, 128))}

    proved = draw.random() < 1 / 2

    def begun(at: int) -> tuple[Stand, Callable[[], Any], LaunchCommand]:
        stand = Stand(store, at)
        if proved:
            stand.live(stand.promote, _NOTHING)
        if act == "rollback":
            stand.live(stand.apply("manual", **settings), _NOTHING)
            work = stand.roll_back()
        else:
            work = stand.apply("trial" if act == "trial" else "manual", **settings)
        stand.server.faults = [fault]
        return stand, work, stand.server.run.command

    rehearsal, work, _ = begun(2 * seed)
    rehearsal.live(work, _NOTHING)
    stand, work, good = begun(2 * seed + 1)
    wanted = LAUNCH if act == "rollback" else render(good, settings)
    known = max((entry.id for entry in stand.journal.last(1)), default=0)
    where = stand.live(work, _point(draw, rehearsal.points))
    stand.server.faults.clear()  # they were the new command's, not the last known good's
    wrong = _gate(stand)
    stand.node.advance(stand.node.now + draw.choice((0.0, 0.3, 3.0, 30.0, 300.0)))
    again = ""
    if draw.random() < 1 / 3:
        again = stand.live(stand.recover, draw.randrange(200))
        wrong += _gate(stand)
        stand.node.advance(stand.node.now + draw.choice((0.0, 3.0, 100.0)))
    stand.live(stand.recover, _NOTHING)
    ended = _ended(stand, known)
    promoted = ended == "done" and not same(good, wanted)
    wrong += _state(stand, wanted if promoted else good)
    if proved and stand.server.serving:
        wrong += _hot(stand)
    return Crash(act, fault, where, again, ended, promoted, tuple(wrong))


def _point(draw: random.Random, points: list[str]) -> int:
    """Any kind of point as likely as another: else most kills would come while a log is polled."""
    kind = draw.choice(sorted(set(points)))
    return draw.choice([place for place, where in enumerate(points) if where == kind])


def _ended(stand: Stand, known: int) -> str:
    newest = next((e for e in stand.journal.last(20) if e.lane == "cold" and e.id > known), None)
    return "not begun" if newest is None else str(newest.outcome)


def _gate(stand: Stand) -> list[str]:
    """A gate that nobody renews any more reopens within its lease once the engine serves."""
    latest = max(stand.node.now, stand.server.run.serves_at if stand.node.control.down else 0.0)
    reopens = stand.node.engine.gate_reopens
    left = 0.0 if latest == float("inf") else reopens - latest
    return [] if left <= LEASE_SECONDS else [f"the gate stays closed for {left:.0f} s with nobody there"]


def _state(stand: Stand, expected: LaunchCommand) -> list[str]:
    server, node = stand.server, stand.node
    wrong = []
    if stand.journal.open_entries("cold") or stand.journal.open_entries("hot"):
        wrong.append("a journal entry is open")
    if server.two_at_once:
        wrong.append("a second engine was begun beside one that ran")
    if not server.serving:
        wrong.append("nothing serves")
    elif not same(server.run.command, expected):
        wrong.append(f"serves {server.run.command.argv}, expected {expected.argv}")
    orphans = [mark.pid for mark in server.alive if mark not in server.run.processes]
    if orphans:
        wrong.append(f"orphans {orphans}")
    if not same(server.kept, expected):
        wrong.append("the next start would use another command")
    if not node.control.down and node.control.gate_state != "open":
        wrong.append("the gate is closed")
    if node.failed_requests:
        wrong.append(f"{node.failed_requests} requests were lost")
    return wrong


def _hot(stand: Stand) -> list[str]:
    """What was promoted serves, and is still what a later start by others would get."""
    values = stand.node.control.read_state().values
    record = stand.journal.promoted()
    if any(values[name] != value for name, value in _PROVED.items()):
        return [f"the promoted hot values are lost: {dict(values)}"]
    if record is None or record.values != _PROVED:
        return ["the promoted hot values are not recorded any more"]
    launch = stand.journal.launch(stand.node.control.boot_id)
    if launch is None or record.launch != launch.values:
        return ["the record of the promotion is of other flags"]
    return []


def crashes(store: Store, count: int, seed: int) -> list[Crash]:
    """`count` kills."""
    return [crash(store, seed + number) for number in range(count)]


def figures(found: list[Crash]) -> str:
    """The figures on a few lines."""
    bad = [one for one in found if one.wrong]
    return "\n".join(
        [
            f"{len(found)} kills at random points of restarts and rollbacks, {sum(bool(c.again) for c in found)} of "
            "them followed by a kill in the recovery",
            f"points hit: {len({c.where for c in found})} different ones",
            f"ended on the promoted command {sum(c.promoted for c in found)}, on the last known good "
            f"{sum(not c.promoted and not c.wrong for c in found)}, otherwise {len(bad)}",
            *(
                f"  {c.act} {c.fault} killed {c.where!r}, again {c.again!r}: {'; '.join(c.wrong)}"
                for c in bad[:10]
            ),
        ]
    )
