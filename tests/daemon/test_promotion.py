"""A promotion over both lanes goes back as a whole, and the engine's part though the host's cannot yet."""

from __future__ import annotations

from typing import Any

import pytest

from change.apply import change
from change.engine import Values
from change.journal import JournalUnwritable
from daemon.lanes import LaneControl
from daemon.promotion import Promoter
from tests.daemon.test_lanes import Stand, run

INCUMBENT: Values = {"placement": 0.0, "memory": 0.0, "watermark": 0.0}
WINNER: Values = {"placement": 2.0, "memory": 1.0, "watermark": 0.2}


async def promoted(stand: Stand) -> Promoter:
    state = await stand.engine.state()
    stand.journal.note_launch(state, stand.engine.now)
    lanes: LaneControl = await stand.lanes()
    promoter = Promoter(lanes, stand.journal, lanes, INCUMBENT, 1)
    assert await promoter.keep(WINNER, 5.0) is None
    return promoter


def test_both_parts_go_back() -> None:
    async def test(stand: Stand) -> None:
        promoter = await promoted(stand)
        assert stand.engine.values["watermark"] == 0.2 and not stand.as_found()
        assert await promoter.take_back(6.0) is None
        assert stand.engine.values == stand.engine.launch and stand.as_found()

    run(test)


def test_where_the_hosts_way_back_fails_the_engine_goes_back_and_the_host_is_tried_again() -> None:
    async def test(stand: Stand) -> None:
        promoter = await promoted(stand)
        stand.host.broken.add("memory")
        for _ in range(2):
            trouble = await promoter.take_back(6.0)
            assert trouble is not None and "memory" in trouble
            assert stand.engine.values == stand.engine.launch
        # No trial was begun on the way: nothing but the way back itself is in the journal.
        assert "trial" not in {entry.kind for entry in stand.journal.last(50)}
        stand.host.broken.clear()
        assert await promoter.take_back(7.0) is None
        assert stand.as_found()

    run(test)


def test_where_the_journal_cannot_be_written_the_engine_goes_back_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(stand: Stand) -> None:
        promoter = await promoted(stand)

        def full(*_: Any, **__: Any) -> int:
            raise JournalUnwritable("the disk is full")

        with monkeypatch.context() as patched:
            patched.setattr(stand.journal, "open", full)
            calls = stand.host.calls
            assert "the disk is full" in str(await promoter.take_back(6.0))
            assert stand.engine.values == stand.engine.launch
            assert stand.host.calls == calls and not stand.as_found()
        assert await promoter.take_back(7.0) is None
        assert stand.as_found()

    run(test)


def test_a_way_back_that_is_tried_again_leaves_the_change_before_alone() -> None:
    async def test(stand: Stand) -> None:
        stand.journal.note_launch(await stand.engine.state(), 1.0)
        await change(
            stand.engine, stand.journal, {"watermark": 0.1}, kind="manual", actor="somebody", now=2.0
        )
        lanes = await stand.lanes()
        promoter = Promoter(lanes, stand.journal, lanes, {**INCUMBENT, "watermark": 0.1}, 1)
        assert await promoter.keep(WINNER, 5.0) is None
        stand.host.broken.add("memory")
        assert "memory" in str(await promoter.take_back(6.0))
        assert stand.engine.values["watermark"] == 0.1
        stand.host.broken.clear()
        assert await promoter.take_back(7.0) is None
        assert stand.engine.values["watermark"] == 0.1 and stand.as_found()
        assert [entry.kind for entry in stand.journal.standing((await stand.engine.state()).boot_id)] == [
            "manual"
        ]

    run(test)
