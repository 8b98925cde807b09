"""The way back: whatever stands there is ended, and the last known good is started, proved and let in."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from change.engine import EngineError
from change.journal import restart_actor
from change.restart.begin import Begun, Proof, Start
from change.restart.course import Course
from change.restart.end import close_and_drain, held_by, release, stop
from change.restart.gate import Keeper
from change.restart.parts import Parts, PhaseFailed
from change.restart.record import Good
from change.server import ProcessMark
from store import StoreError


async def end_failed(
    parts: Parts, course: Course, keeper: Keeper, owned: Sequence[ProcessMark], *, let_in: bool
) -> None:
    """End the start that failed, with what is left of the engine before it; raises `PhaseFailed`.

    If users were let in (`let_in`), they are drained like any others. Memory that does not come back is said and no
    more: the last known good is started all the same, as nothing better is left to do.
    """
    state = await parts.server.look()
    family = await parts.ground.family(state.processes)
    held = await held_by(parts, [*owned, *family])
    if state.running and let_in:
        try:
            await close_and_drain(parts, course, keeper)
        except PhaseFailed as failed:
            course.say(f"not drained: {failed}")
    course.gate_closed()
    await stop(parts, course)
    try:
        await release(parts, course, [*owned, *family], held)
    except PhaseFailed as failed:
        course.say(str(failed))


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
