"""The way back: whatever stands there is ended, and the last known good is started, proved and let in."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from change.engine import EngineError
from change.journal import restart_actor
from change.restart.begin import Begun, Proof, Start
from change.restart.command import same
from change.restart.course import Course
from change.restart.end import close_and_drain, held_by, release, stop
from change.restart.gate import Keeper
from change.restart.parts import Parts, PhaseFailed
from change.restart.ports import ProbeFailed
from change.restart.record import Good
from change.server import ProcessMark, ServerError
from store import StoreError

T = TypeVar("T")

STOPS = 3
"""How often an end is ordered on the way back: an engine that cannot be ended keeps the last known good out."""
STOP_PAUSE_SECONDS = 5.0
ENDS_WITHIN_SECONDS = 10.0
"""Within this an engine without requests has ended that was asked to: if it is well so long, users may come in."""


NOTHING = "no engine serves"


async def serves_on(parts: Parts, course: Course, keeper: Keeper, identity: str | None) -> bool:
    """Whether that run of the engine serves on though its end was ordered, or may have been; then users are let in.

    It is watched until the grace of its end is over. Raises `ServerError`.
    """
    grace = parts.settings.grace_seconds
    first = min(ENDS_WITHIN_SECONDS, grace)
    if identity is None or not await _runs(parts, identity, first, well=True):
        return False
    try:
        if (await parts.control.state()).gate == "closed":
            await open_gate(parts, course, keeper)
    except (EngineError, PhaseFailed) as error:
        course.say(f"the gate opens by its lease: {error}")
    course.gate_open()
    return await _runs(parts, identity, grace - first, well=False)


async def spared(parts: Parts, course: Course, keeper: Keeper, identity: str | None) -> bool:
    """The same of an engine whose end failed: where nobody can tell, it is taken for one that does not."""
    try:
        return await serves_on(parts, course, keeper, identity)
    except ServerError as error:
        course.say(f"whether it serves on is not known: {error}")
        return False


async def _runs(parts: Parts, identity: str, seconds: float, *, well: bool) -> bool:
    until = parts.clock.now() + seconds
    while True:
        state = await parts.server.look()
        if not state.running or state.identity != identity or (well and not await parts.probe.healthy()):
            return False
        if parts.clock.now() >= until:
            return True
        await parts.clock.sleep(parts.settings.poll_seconds)


async def answers(parts: Parts) -> bool:
    """Whether what stands there says it is well and gives a token, whatever the hand knows of it."""
    try:
        if not await parts.probe.healthy():
            return False
        async with asyncio.timeout(parts.settings.probe_seconds):
            await parts.probe.one_token()
    except (ProbeFailed, TimeoutError):
        return False
    return True


async def give_up(parts: Parts, course: Course, keeper: Keeper, good: Good, last: PhaseFailed) -> str | None:
    """End the way back that failed with `last`: what answers is let be and let in, whatever the fault.

    Returns what stands there in words, or None if it is the last known good.
    """
    # What could not be ended on the way back is not ended now either: nothing would be started in its place.
    if not await answers(parts) and (last.phase == "stop" or not await _as_it_was(parts, course, good)):
        return NOTHING
    with contextlib.suppress(EngineError):
        await keeper.open()
    course.gate_open()
    with contextlib.suppress(ServerError):
        if same(await parts.server.command(), good.command):
            return None
    return "the engine serves with a command that is not proved, and could not be ended"


async def _as_it_was(parts: Parts, course: Course, good: Good) -> bool:
    """End what does not answer; where the last known good was made anew, start the kept one itself, its gate open.

    What it has beside its command may be what the new one lacked. Returns whether it answers.
    """
    try:
        await parts.server.look()  # What the hand knows nothing of is let be: it may be about to serve.
        await parts.server.stop(grace_seconds=parts.settings.grace_seconds)
        if not parts.server.keeps_original:
            return False
        course.say("the last known good could not be made anew: the one that was kept is started as it was")
        await parts.server.keep(good.command)
        await parts.server.start(good.command)
        await Start(parts, course, lambda boot_id: None).load(good.command)
    except (ServerError, PhaseFailed) as error:
        course.say(str(error))
        return False
    return await answers(parts)


async def end_failed(
    parts: Parts, course: Course, keeper: Keeper, owned: Sequence[ProcessMark], *, let_in: bool
) -> None:
    """End the start that failed, with what is left of the engine before it; raises `PhaseFailed`.

    If users were let in (`let_in`), they are drained like any others. Memory that does not come back is said and no
    more: the last known good is started all the same, as nothing better is left to do.
    """
    state = await _at_last(parts, course, parts.server.look)
    family = await parts.ground.family(state.processes)
    held = await held_by(parts, [*owned, *family], state.running)
    if state.running and let_in:
        try:
            await close_and_drain(parts, course, keeper)
        except PhaseFailed as failed:
            course.say(f"not drained: {failed}")
    course.gate_closed()
    await _at_last(parts, course, lambda: stop(parts, course))
    try:
        await release(parts, course, [*owned, *family], held)
    except PhaseFailed as failed:
        course.say(str(failed))


async def _at_last(parts: Parts, course: Course, order: Callable[[], Awaitable[T]]) -> T:
    """Have the hand carry out a part of an end, ordered more than once; raises `PhaseFailed`."""
    for _ in range(STOPS - 1):
        try:
            return await order()
        except (PhaseFailed, ServerError) as failed:
            course.say(f"{failed}; tried again in {STOP_PAUSE_SECONDS:g} s")
            await parts.clock.sleep(STOP_PAUSE_SECONDS)
    try:
        return await order()
    except (PhaseFailed, ServerError) as failed:
        raise PhaseFailed("stop", str(failed)) from failed


async def start_good(
    parts: Parts, course: Course, keeper: Keeper, good: Good, start: Start, entry: int, *, begun: bool = False
) -> Proof:
    """Start the last known good and open its gate; raises `PhaseFailed`.

    `entry` is the restart it is the way back of. `begun`: somebody has begun that start.
    """
    keeper.begin()
    if not begun:
        await start.begin(good.command)
    what = Begun(
        good.command, good.settings, good.hot, good.proved, False, restart_actor(entry), strict=False
    )
    proof = await start.prove(what)
    # What a trial promoted for itself does not outlive it. A store that fails now must not keep users waiting.
    with contextlib.suppress(StoreError):
        if good.proved is None and parts.journal.promoted() is not None:
            parts.journal.clear_promoted()
    await open_gate(parts, course, keeper)
    return proof


async def open_gate(parts: Parts, course: Course, keeper: Keeper) -> None:
    """Let users in; where the gate does not open by order, its lease opens it."""
    with course.during("open"):
        try:
            await keeper.open()
        except EngineError as error:
            raise PhaseFailed("open", f"the gate could not be opened: {error}") from error
        course.gate_open()
