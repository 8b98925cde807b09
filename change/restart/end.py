"""The end of the engine that serves: no new request, the old ones out, the process gone, its memory free."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from change.engine import EngineError
from change.restart.course import Course
from change.restart.gate import Keeper
from change.restart.own import Own
from change.restart.parts import Parts, PhaseFailed
from change.restart.ports import Holder
from change.server import ProcessMark, ServerError

URGENT_DRAIN_SECONDS = 1.0
"""For an engine that answers nothing: what it may still bring to an end."""
URGENT_ANSWER_SECONDS = 0.5
"""For a question to it that has stood unanswered before."""
URGENT_GRACE_SECONDS = 3.0
_CALM_LOOKS = 2
"""A request let in just before the gate closed may be counted a moment later: one look at zero is not enough."""


async def close_in_haste(parts: Parts, course: Course, keeper: Keeper) -> int | None:
    """The same for an engine that answers nothing: its gate may not close, and its requests cannot finish.

    Returns how many were left, None where nobody can tell.
    """
    patience = 2 * URGENT_DRAIN_SECONDS
    try:
        # Each question of it may hang for as long as its client waits.
        async with asyncio.timeout(patience):
            return await close_and_drain(parts, course, keeper, URGENT_DRAIN_SECONDS)
    except TimeoutError:
        course.say(f"the engine answered nothing within {patience:g} s: it is ended as it is")
    except PhaseFailed as failed:
        course.say(f"{failed}; it is ended as it is")
    return None


async def close_and_drain(
    parts: Parts, course: Course, keeper: Keeper, drain_seconds: float | None = None
) -> int:
    """Close the gate and wait until the requests inside are done; return how many were left at the deadline."""
    patience = parts.settings.drain_seconds if drain_seconds is None else drain_seconds
    with course.during("gate"):
        course.gate_closed()
        try:
            await keeper.close()
        except EngineError as error:
            raise PhaseFailed("gate", f"the gate could not be closed: {error}") from error
    with course.during("drain"):
        deadline = parts.clock.now() + patience
        calm = 0
        left: int | None = None
        while parts.clock.now() < deadline:
            await attend(parts, course)
            left = await _inside(parts)
            calm = calm + 1 if left == 0 else 0
            if calm >= _CALM_LOOKS:
                return 0
            await parts.clock.sleep(parts.settings.poll_seconds)
        course.say(f"{'requests' if left is None else left} still inside after {patience:g} s")
        return left or 0


async def attend(parts: Parts, course: Course) -> None:
    """Tell the hand that somebody is at work; an older one that does not know the word loses nothing by it."""
    try:
        await parts.server.attend()
    except ServerError as error:
        if not course.unattended:
            course.unattended = True
            course.say(f"the hand does not know that somebody is at work: {error}")


async def _inside(parts: Parts) -> int | None:
    """Count by the engine's gauges and by the plugin, which alone knows requests that are still being tokenised.

    None where the gauges say nothing and the plugin counts nobody: unknown is not empty.
    """
    gauges = await parts.probe.inside()
    try:
        counted = (await parts.control.state()).requests_inside
    except EngineError:
        counted = None
    return gauges if not counted else max(counted, gauges or 0)


async def stop(parts: Parts, course: Course, *, urgent: bool = False) -> None:
    """End the engine; a hand that cannot is a failure, unless the engine is gone all the same."""
    grace = parts.settings.grace_seconds
    with course.during("stop"):
        try:
            await parts.server.stop(grace_seconds=min(grace, URGENT_GRACE_SECONDS) if urgent else grace)
        except ServerError as error:
            if (await parts.server.look()).running:
                raise PhaseFailed("stop", f"the engine could not be stopped: {error}") from error


@dataclass(frozen=True, slots=True)
class Held:
    """What must be free on each card once the engine is gone, in bytes by the card's name.

    `surely` counts what its known processes held, `likely` also what may be its own, as it is not seen from here.
    """

    surely: dict[str, int]
    likely: dict[str, int]


async def release(parts: Parts, course: Course, owned: Sequence[ProcessMark], held: Held) -> None:
    """Wait until what the engine held of its cards is free again.

    Its own processes that outlive it are killed half-way; others are only named. Memory of which nobody knows that it
    was the engine's is waited for as long, and is no failure: it may be a neighbour's.
    """
    with course.during("release"):
        begun = parts.clock.now()
        reaped = False
        while True:
            left = await parts.ground.living(owned)
            blockers = await _blockers(parts, held.likely)
            if not left and not blockers:
                return
            waited = parts.clock.now() - begun
            if left and not reaped and waited >= parts.settings.release_seconds / 2:
                course.say(f"{len(left)} processes of the ended engine live on and are killed: {_pids(left)}")
                await parts.ground.reap(left)
                reaped = True
            if waited >= parts.settings.release_seconds:
                if not left and not await _blockers(parts, held.surely):
                    course.say(f"gone on after {waited:.0f} s, though {'; '.join(blockers)}")
                    return
                text = "; ".join(blockers) or f"processes {_pids(left)} of the ended engine do not end"
                raise PhaseFailed("release", f"after {waited:.0f} s device memory is not free: {text}")
            await parts.clock.sleep(parts.settings.poll_seconds)


async def held_by(parts: Parts, owned: Sequence[ProcessMark], running: bool) -> Held:
    """How much must be free on each card without the engine; `owned` are its processes as far as they are seen."""
    holders = await parts.ground.holders()
    own = Own.of(owned, running)
    held = Held({}, {})
    for card in await parts.ground.cards():
        here = [holder for holder in holders if holder.card in (None, card.name)]
        for found, mine in ((held.surely, own.surely_holds), (held.likely, own.holds)):
            found[card.name] = card.free_bytes + sum(one.held_bytes for one in here if mine(one))
    return held


async def _blockers(parts: Parts, held: dict[str, int]) -> list[str]:
    short = []
    for card in await parts.ground.cards():
        missing = held.get(card.name, 0) - card.free_bytes
        if missing > parts.settings.memory_tolerance * card.total_bytes:
            short.append((card.name, missing))
    if not short:
        return []
    holders: Sequence[Holder] = await parts.ground.holders()
    found = []
    for name, missing in short:
        who = [str(holder) for holder in holders if holder.card in (None, name) and holder.held_bytes]
        found.append(
            f"{missing / 1024**3:.1f} GiB of {name} are not back, held by {', '.join(who) or 'nobody that is seen'}"
        )
    return found


def _pids(marks: Sequence[ProcessMark]) -> str:
    return ", ".join(str(mark.pid) for mark in marks)
