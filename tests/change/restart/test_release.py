"""The wait for an ended engine's memory where its processes are not seen from here."""

from __future__ import annotations

from change.restart.ports import Holder
from change.server import ProcessMark
from tests.change.restart.stand import GIB, Stand


def unseen(stand: Stand) -> Stand:
    async def family(roots: object) -> tuple[ProcessMark, ...]:
        return ()

    stand.ground.family = family  # type: ignore[method-assign]
    return stand


def test_memory_that_comes_back_late_is_waited_for() -> None:
    stand = unseen(Stand())
    late: list[float] = []
    real = stand.server.stop

    async def stop(*, grace_seconds: float) -> None:
        await real(grace_seconds=grace_seconds)
        late.append(stand.clock.now() + 20.0)

    async def strangers() -> list[Holder]:
        held = await holders()
        if late and stand.clock.now() < late[0] and not stand.server.serving:
            held = [*held, Holder("a process", None, 28 * GIB, "NPU 0")]
        return list(held)

    holders = stand.ground.holders
    stand.server.stop = stop  # type: ignore[method-assign]
    stand.ground.holders = strangers  # type: ignore[method-assign]
    result = stand.restart(block_size=64)
    assert result.outcome == "served"
    assert 19.0 <= result.seconds["release"] <= 22.0


def test_a_neighbour_on_the_same_card_is_waited_for_and_no_failure() -> None:
    stand = unseen(Stand())
    stand.ground.strangers = [Holder("monitor", ProcessMark(79, 5.0), GIB, "NPU 0")]
    result = stand.restart(block_size=64)
    assert result.outcome == "served"
    assert result.seconds["release"] >= stand.parts.settings.release_seconds
    assert any("gone on after" in line and "monitor (pid 79)" in line for line in stand.said)
