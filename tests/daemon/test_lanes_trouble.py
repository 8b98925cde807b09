"""The joined lanes where the host or the engine fails, or is slow: the way back is never lost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from change.engine import EngineError, StaleEpoch
from change.host import HostChange, HostReading
from change.host_steps import recover_host
from tests.daemon.test_lanes import Host, Stand, run

LEASE = 30.0


def slow(stand: Stand, seconds: float) -> None:
    """Let each change of the host take so long."""

    class Slow(Host):
        async def apply(self, change: HostChange) -> HostReading:
            stand.engine.now += seconds
            return await super().apply(change)

        async def restore(self, knob: str, undo: Mapping[str, Any]) -> HostReading:
            stand.engine.now += seconds
            return await super().restore(knob, undo)

    stand.host = Slow()


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


def test_pages_may_take_longer_to_move_than_a_lease_lasts() -> None:
    async def test(stand: Stand) -> None:
        slow(stand, 2 * LEASE)
        lanes = await stand.lanes()
        await stand.serve(lanes, LEASE, placement=1, memory=0, watermark=0.1)
        answer = await stand.serve(lanes, LEASE, placement=2, memory=1, watermark=0.2)
        assert (answer.status, answer.epoch) == ("applied", stand.engine.epoch)
        assert (stand.host.values["placement"], stand.host.values["memory"]) == ("split:4", "node:4")
        assert (stand.engine.values["watermark"], stand.engine.deadline is None) == (0.2, False)
        # From a config of the host to one of the engine alone, and on to one of the host.
        answer = await stand.serve(lanes, LEASE, placement=0, memory=0, watermark=0.3)
        assert stand.as_found() and answer.epoch == stand.engine.epoch
        assert (stand.engine.values["watermark"], stand.engine.deadline is None) == (0.3, False)
        await stand.serve(lanes, LEASE, placement=1, memory=0, watermark=0.0)
        await stand.serve(lanes, None, placement=0, memory=0, watermark=0.0)
        assert stand.as_found() and stand.engine.values == stand.engine.launch

    run(test)


def test_the_engine_serves_the_incumbent_while_the_host_is_between_two_configs() -> None:
    async def test(stand: Stand) -> None:
        lanes = await stand.lanes()
        await stand.serve(lanes, LEASE, placement=1, watermark=0.1)
        stand.host.broken.add("placement")
        with pytest.raises(EngineError):
            await stand.serve(lanes, LEASE, placement=2, watermark=0.2)
        assert (stand.engine.values, stand.engine.mark) == (stand.engine.launch, "")
        assert stand.engine.deadline is None

    run(test)


@pytest.mark.parametrize("back", [False, True])
def test_a_lease_of_ours_that_ran_out_is_nobody_elses_change(back: bool) -> None:
    async def test(stand: Stand) -> None:
        lanes = await stand.lanes()
        epoch = (await stand.serve(lanes, LEASE, placement=1, watermark=0.1)).epoch
        stand.engine.now += LEASE + 1.0
        place = 0 if back else 2
        lease = None if back else LEASE
        await lanes.set_knobs(
            {"placement": place, "watermark": 0.0},
            if_epoch=epoch,
            lease_seconds=lease,
            revert_to=stand.engine.launch,
        )
        assert stand.host.values["placement"] == ("as_found" if back else "split:4")

    run(test)


@pytest.mark.parametrize("lease", [None, LEASE])
def test_a_change_by_somebody_else_under_our_lease_is_stale(lease: float | None) -> None:
    async def test(stand: Stand) -> None:
        lanes = await stand.lanes()
        epoch = (await stand.serve(lanes, LEASE, placement=1)).epoch
        await stand.engine.set_knobs(
            {"watermark": 0.4}, if_epoch=epoch, lease_seconds=lease, mark="placement=split:6"
        )
        with pytest.raises(StaleEpoch):
            await lanes.set_knobs({"placement": 2}, if_epoch=epoch, lease_seconds=LEASE)
        assert stand.engine.values["watermark"] == 0.4

    run(test)


def test_a_winner_that_is_in_force_already_is_kept_and_leaves_nothing_to_take_back() -> None:
    async def test(stand: Stand) -> None:
        older = await stand.lanes()
        await older.keep({"memory": 1}, actor="campaign 1", now=4.0, campaign_id=1)
        lanes = await stand.lanes()
        stand.host.values["placement"] = "split:4"
        assert await lanes.keep({"placement": 2}, actor="campaign 2", now=5.0, campaign_id=2) == ({}, None)
        assert (await lanes.state()).values["placement"] == 2
        await lanes.drop({"placement": 0}, actor="campaign 2", now=6.0)
        # An earlier campaign's promotion is not this one's to take back.
        assert [entry.campaign_id for entry in stand.journal.standing("host-1", "host")] == [1]

    run(test)
