"""Before anything is stopped: everything that can be known to go wrong."""

from __future__ import annotations

from collections.abc import Sequence

from change.engine import EngineError
from change.restart.memory import MemoryPlan, judge
from change.restart.order import RestartOrder
from change.restart.own import Own
from change.restart.parts import Parts
from change.restart.ports import Card, Holder
from change.server import LaunchCommand, ProcessMark

_GIB = 1024**3


async def objections(
    parts: Parts, order: RestartOrder, good: LaunchCommand, family: Sequence[ProcessMark], running: bool
) -> list[str]:
    """Say in words what speaks against a restart; nothing is changed.

    `good` is the last known good command, `family` are the processes of the engine.

    What it holds of memory and its port count as free, as they will be. Warnings are said, and are no objection.
    """
    found: list[str] = []
    refusal = parts.judges.allowed(order, parts.clock.now())
    if refusal is not None:
        found.append(refusal)
    found += await parts.judges.problems(order.settings, order.command)
    gated = [name for name, value in order.settings.items() if parts.judges.golden({name: value})]
    if gated and not parts.probe.has_golden:
        found.append(
            f"{', '.join(gated)} may change answers, and there is no golden prompt to prove them: write some into "
            "engine.restart.golden"
        )
    found += await parts.server.objections()
    own = Own.of(family, running)
    plan = await parts.judges.plan(order.command)
    # What a rollback brings back has served, too.
    known = plan if order.undoes else await parts.judges.plan(good)
    found += await _memory(parts, plan, known, own)
    found += await _port(parts, own)
    free = await parts.ground.disk_free_bytes()
    least = parts.settings.least_disk_bytes
    if free is not None and free < least:
        found.append(
            f"the disk has {free / _GIB:.2f} GiB left, fewer than {least / _GIB:.2f}: make room for logs and journal"
        )
    if running and not order.urgent:
        found += await _gate(parts)
    return found


async def _memory(parts: Parts, plan: MemoryPlan | None, known: MemoryPlan | None, engine: Own) -> list[str]:
    cards = await parts.ground.cards()
    if plan is None or not cards:
        return []
    judged = judge(plan, cards)
    for warning in judged.warnings:
        parts.say(f"preflight: {warning}")
    # The formulas do not know every model: what has served fits, whatever they say.
    found = [] if known is not None and plan.within(known) else list(judged.problems)
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


def _shares(card: Card, holders: Sequence[Holder], engine: Own) -> tuple[int, list[Holder]]:
    here = [holder for holder in holders if holder.card in (None, card.name)]
    mine = [holder for holder in here if engine.holds(holder)]
    return sum(holder.held_bytes for holder in mine), [holder for holder in here if not engine.holds(holder)]


async def _port(parts: Parts, engine: Own) -> list[str]:
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
