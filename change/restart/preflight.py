"""Before anything is stopped: everything that can be known to go wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from change.engine import EngineError
from change.restart.memory import MemoryPlan, judge
from change.restart.order import RestartOrder
from change.restart.parts import Parts
from change.restart.ports import Card, Holder
from change.server import ProcessMark

_GIB = 1024**3


async def objections(
    parts: Parts, order: RestartOrder, family: Sequence[ProcessMark], running: bool
) -> list[str]:
    """Say in words what speaks against a restart; nothing is changed. `family` are the processes of the engine.

    What it holds of memory and its port count as free, as they will be. Warnings are said, and are no objection.
    """
    found: list[str] = []
    refusal = parts.judges.allowed(order, parts.clock.now())
    if refusal is not None:
        found.append(refusal)
    found += await parts.judges.problems(order.settings, order.command)
    found += await parts.server.objections()
    # An engine whose processes are not seen from here (a container's, a pod's) is taken for whoever is in its place:
    # refusing every restart of it would help nobody, and the release names what stays.
    own = _Own(frozenset(family), running and not family)
    found += await _memory(parts, await parts.judges.plan(order.command), own)
    found += await _port(parts, own)
    free = await parts.ground.disk_free_bytes()
    least = parts.settings.least_disk_bytes
    if free is not None and free < least:
        found.append(
            f"the disk has {free / _GIB:.2f} GiB left, fewer than {least / _GIB:.2f}: make room for logs and journal"
        )
    if running:
        found += await _gate(parts)
    return found


@dataclass(frozen=True, slots=True)
class _Own:
    """Who the engine is: its processes, and whether it runs somewhere that is not seen."""

    family: frozenset[ProcessMark]
    unseen: bool

    def holds(self, holder: Holder) -> bool:
        """Whether a holder is the engine, or may be, as it is not seen itself."""
        if holder.mark is None:
            return self.unseen or bool(self.family)
        return self.unseen or holder.mark in self.family


async def _memory(parts: Parts, plan: MemoryPlan | None, engine: _Own) -> list[str]:
    cards = await parts.ground.cards()
    if plan is None or not cards:
        return []
    judged = judge(plan, cards)
    for warning in judged.warnings:
        parts.say(f"preflight: {warning}")
    found = list(judged.problems)
    holders = await parts.ground.holders()
    slack = parts.settings.memory_tolerance
    for card in cards:
        own, others = _shares(card, holders, engine)
        will_be_free = card.free_bytes + own
        need = (plan.share - slack) * card.total_bytes
        if will_be_free < need:
            who = f"; held by {', '.join(map(str, others))}" if others else "; nobody says who holds the rest"
            found.append(
                f"{card.name} will have {will_be_free / _GIB:.1f} GiB free once the engine has ended, and the new one "
                f"wants {need / _GIB:.1f}{who}: end that first, or lower gpu_memory_utilization"
            )
    return found


def _shares(card: Card, holders: Sequence[Holder], engine: _Own) -> tuple[int, list[Holder]]:
    here = [holder for holder in holders if holder.card in (None, card.name)]
    mine = [holder for holder in here if engine.holds(holder)]
    return sum(holder.held_bytes for holder in mine), [holder for holder in here if not engine.holds(holder)]


async def _port(parts: Parts, engine: _Own) -> list[str]:
    holder = await parts.ground.port_holder()
    if holder is None or engine.holds(holder):
        return []
    return [f"the engine's port is taken by {holder}: end it, or give the engine another port"]


async def _gate(parts: Parts) -> list[str]:
    try:
        state = await parts.control.state()
    except EngineError as error:
        return [f"the engine's gate cannot be closed, so that requests would be lost: {error}"]
    if state.lease_remaining_seconds is not None:
        return [
            f"a hot trial is under way (its lease ends in {state.lease_remaining_seconds:.0f} s): stop it, or "
            "try again then"
        ]
    return []
