"""The joined lanes where the host or the engine fails, or is slow: the way back is never lost."""

from __future__ import annotations

import pytest

from change.engine import EngineError
from change.host_steps import recover_host
from tests.daemon.test_lanes import Stand, run


def test_a_way_back_that_failed_keeps_its_undo_until_it_worked() -> None:
    async def test(stand: Stand) -> None:
        lanes = await stand.lanes()
        await stand.serve(lanes, placement=2, memory=1)
        stand.host.broken.add("memory")
        with pytest.raises(EngineError, match="could not be put back"):
            await stand.serve(lanes, None, placement=0, memory=0)
        lanes.forget({"placement": 2, "memory": 1}, 5.0, "lost")
        assert stand.open_changes() == [{"placement": "split:4", "memory": "node:4"}]
        stand.host.broken.clear()
        await recover_host(stand.host, stand.journal, 9.0, boot_id="host-1")
        assert stand.as_found() and stand.open_changes() == []

    run(test)


def test_an_entry_kept_for_its_undo_is_closed_before_another_config_is_promoted() -> None:
    async def test(stand: Stand) -> None:
        lanes = await stand.lanes()
        await stand.serve(lanes, memory=1)
        stand.host.broken.add("memory")
        with pytest.raises(EngineError):
            await stand.serve(lanes, None, memory=0)
        lanes.forget({"memory": 1}, 5.0, "lost")
        stand.host.broken.clear()
        await lanes.keep({"placement": 2}, actor="campaign 1", now=6.0, campaign_id=1)
        await recover_host(stand.host, stand.journal, 9.0, boot_id="host-1")
        assert (stand.host.values["placement"], stand.host.values["memory"]) == ("split:4", "as_found")
        assert [(e.kind, e.outcome) for e in stand.journal.last(2)] == [
            ("promotion", "done"),
            ("trial", "undone"),
        ]

    run(test)
