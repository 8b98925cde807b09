"""The end of the engine that serves: no new request, the old ones out, the process gone, its memory free."""

from __future__ import annotations

from collections.abc import Sequence

from change.engine import EngineError
from change.restart.course import Course
from change.restart.gate import Keeper
from change.restart.parts import Parts, PhaseFailed
from change.restart.ports import Holder
from change.server import ProcessMark, ServerError

_CALM_LOOKS = 2
"""A request let in just before the gate closed may be counted a moment later: one look at zero is not enough."""


async def close_and_drain(parts: Parts, course: Course, keeper: Keeper) -> int:
    """Close the gate and wait until the requests inside are done; return how many were left at the deadline."""
    with course.during("gate"):
        course.gate_closed()
        try:
            await keeper.close()
        except EngineError as error:
            raise PhaseFailed("gate", f"the gate could not be closed: {error}") from error
    with course.during("drain"):
        deadline = parts.clock.now() + parts.settings.drain_seconds
        calm = 0
        left: int | None = None
        while parts.clock.now() < deadline:
            left = await _inside(parts)
            calm = calm + 1 if left == 0 else 0
            if calm >= _CALM_LOOKS:
                return 0
            await parts.clock.sleep(parts.settings.poll_seconds)
        course.say(
            f"{'requests' if left is None else left} still inside after {parts.settings.drain_seconds:g} s"
        )
        return left or 0


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


async def stop(parts: Parts, course: Course) -> None:
    """End the engine; a hand that cannot is a failure, unless the engine is gone all the same."""
    with course.during("stop"):
        try:
            await parts.server.stop(grace_seconds=parts.settings.grace_seconds)
        except ServerError as error:
            if (await parts.server.look()).running:
                raise PhaseFailed("stop", f"the engine could not be stopped: {error}") from error


async def release(parts: Parts, course: Course, owned: Sequence[ProcessMark], held: dict[str, int]) -> None:
    """Wait until what the engine held of its cards (`held`, bytes by card) is free again.

    Its own processes that outlive it are killed half-way; others are only named.
    """
    with course.during("release"):
        begun = parts.clock.now()
        reaped = False
        while True:
            left = await parts.ground.living(owned)
            blockers = await _blockers(parts, held)
            if not left and not blockers:
                return
            waited = parts.clock.now() - begun
            if left and not reaped and waited >= parts.settings.release_seconds / 2:
                course.say(f"{len(left)} processes of the ended engine live on and are killed: {_pids(left)}")
                await parts.ground.reap(left)
                reaped = True
            if waited >= parts.settings.release_seconds:
                text = "; ".join(blockers) or f"processes {_pids(left)} of the ended engine do not end"
                raise PhaseFailed("release", f"after {waited:.0f} s device memory is not free: {text}")
            await parts.clock.sleep(parts.settings.poll_seconds)


async def held_by(parts: Parts, owned: Sequence[ProcessMark]) -> dict[str, int]:
    """How much must be free on each card once these processes are gone, in bytes by the card's name."""
    holders = await parts.ground.holders()
    return {
        card.name: card.free_bytes
        + sum(h.held_bytes for h in holders if h.card in (None, card.name) and h.mark in owned)
        for card in await parts.ground.cards()
    }


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
