"""The hot and the host lane joined: one epoch and one lease for both, and the way back whoever fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from change.engine import EngineError, EngineState, EngineUnreachable, KnobAnswer, StaleEpoch
from change.host import HostError
from change.host_steps import recover_host
from change.journal import Journal
from daemon.lanes import LaneControl
from store import open_store
from tests.change.plain_engine import PlainEngine
from tests.change.plain_host import Killed, PlainHost


class Host(PlainHost):
    """The plain host with two knobs to try, as the side that campaigns see."""

    @property
    def hand(self) -> Host:
        return self

    def boot_id(self) -> str:
        return "host-1"

    def node_lock(self, what: str) -> None: ...

    def process_lock(self, what: str) -> None: ...

    async def choices(self) -> dict[str, tuple[str, ...]]:
        return {
            "placement": ("as_found", "split:6", "split:4"),
            "memory": ("as_found", "node:4"),
            "swappiness": ("60", "10"),
        }


class Stand:
    """An engine, its host and the journal."""

    def __init__(self) -> None:
        self.engine = PlainEngine()
        self.host = Host()
        self.store = open_store("sqlite:///:memory:")
        self.journal = Journal(self.store, "plain")

    async def lanes(self, *names: str) -> LaneControl:
        return await LaneControl.opened(self.engine, self.host, self.journal, lambda: self.engine.now, names)

    async def serve(self, lanes: LaneControl, lease: float | None = 30.0, **values: float) -> KnobAnswer:
        return await lanes.set_knobs(
            values, if_epoch=self.engine.epoch, lease_seconds=lease, revert_to=dict(self.engine.launch)
        )

    def open_changes(self) -> list[Any]:
        return [entry.change for entry in self.journal.open_entries("host")]

    def as_found(self) -> bool:
        return self.host.values == Host().values


def run(test: Callable[[Stand], Awaitable[None]]) -> None:
    stand = Stand()
    asyncio.run(test(stand))  # type: ignore[arg-type]
    stand.store.close()


def test_the_hosts_knobs_stand_beside_the_engines() -> None:
    async def test(stand: Stand) -> None:
        state = await (await stand.lanes()).state()
        # Node-wide knobs are tried only if they are named.
        assert dict(state.options) == {
            "placement": ("as_found", "split:6", "split:4"),
            "memory": ("as_found", "node:4"),
        }
        assert (state.values["placement"], state.ceilings["placement"], state.floors["placement"]) == (
            0,
            2,
            0,
        )
        assert state.own(state.values) == stand.engine.values
        named = await stand.lanes("swappiness")
        assert list(named.options) == ["swappiness"] and named.node_wide

    run(test)


def test_a_plugin_that_knows_no_marks_is_too_old() -> None:
    class Old(PlainEngine):
        async def state(self) -> EngineState:
            return replace(await super().state(), mark=None)

    async def test(stand: Stand) -> None:
        stand.engine = Old()
        with pytest.raises(EngineError, match="too old for the host lane"):
            await stand.lanes()

    run(test)


def test_a_trial_of_the_host_is_journaled_first_and_begins_an_epoch() -> None:
    async def test(stand: Stand) -> None:
        lanes = await stand.lanes()
        answer = await stand.serve(lanes, placement=2, memory=1)
        assert stand.host.values["placement"] == "split:4" and stand.host.values["memory"] == "node:4"
        assert (answer.epoch, answer.effective) == (1, {"placement": 2, "memory": 1})
        assert stand.open_changes() == [{"placement": "split:4", "memory": "node:4"}]
        assert stand.engine.mark == "placement=split:4 memory=node:4"
        assert stand.engine.deadline is not None
        again = await stand.serve(lanes, placement=2, memory=1)
        assert again.epoch == 1 and len(stand.open_changes()) == 1

    run(test)


def test_the_incumbent_comes_back_in_one_call_and_each_config_has_one_entry() -> None:
    async def test(stand: Stand) -> None:
        lanes = await stand.lanes()
        for _ in range(3):
            await stand.serve(lanes, placement=1, memory=0, watermark=0.1)
            await stand.serve(lanes, placement=2, memory=1, watermark=0.0)
            await stand.serve(lanes, None, placement=0, memory=0, watermark=0.0)
            assert stand.as_found() and stand.engine.mark == "" and stand.engine.deadline is None
        assert len(stand.open_changes()) == 2
        # The engine serves the incumbent while the host goes from one config to another.
        assert stand.engine.epoch == 12
        lanes.forget({"placement": 1, "memory": 0}, 5.0, "lost")
        lanes.forget({"placement": 2, "memory": 1}, 5.0, "lost")
        assert stand.open_changes() == []

    run(test)


def test_a_lease_that_ran_out_takes_the_host_back_at_the_next_look() -> None:
    async def test(stand: Stand) -> None:
        lanes = await stand.lanes()
        await stand.serve(lanes, placement=2, memory=1)
        stand.engine.now += 31.0
        state = await lanes.state()
        assert stand.as_found()
        assert (state.values["placement"], state.values["memory"]) == (0, 0)

    run(test)


def test_an_engine_out_of_reach_for_longer_than_the_lease_takes_the_host_back() -> None:
    async def test(stand: Stand) -> None:
        lanes = await stand.lanes()
        await stand.serve(lanes, placement=2, memory=1)
        stand.engine.down = True
        with pytest.raises(EngineUnreachable):
            await lanes.state()
        assert not stand.as_found()  # the lease still holds there
        stand.engine.now += 31.0
        with pytest.raises(EngineUnreachable):
            await lanes.state()
        assert stand.as_found()

    run(test)


def test_an_engine_that_restarted_takes_the_host_back() -> None:
    async def test(stand: Stand) -> None:
        lanes = await stand.lanes()
        await stand.serve(lanes, placement=2, memory=1)
        stand.engine.restart()
        await lanes.state()
        assert stand.as_found()

    run(test)


def test_the_host_is_not_touched_where_somebody_else_changed_the_engine() -> None:
    async def test(stand: Stand) -> None:
        lanes = await stand.lanes()
        with pytest.raises(StaleEpoch):
            await lanes.set_knobs({"placement": 2}, if_epoch=7, lease_seconds=30.0)
        assert stand.as_found() and stand.host.calls == 0 and stand.open_changes() == []

    run(test)


@pytest.mark.parametrize("how", ["refuses", "raises"])
def test_where_the_engine_does_not_follow_the_host_goes_back(how: str) -> None:
    async def test(stand: Stand) -> None:
        lanes = await stand.lanes()
        if how == "refuses":
            stand.engine.refuses = "not now"
            assert (await stand.serve(lanes, placement=2)).status == "refused"
        else:
            with pytest.raises(EngineError):
                await stand.serve(lanes, placement=2, watermark=7.0)
        assert stand.as_found()

    run(test)


def test_the_host_comes_back_though_the_engine_is_gone() -> None:
    async def test(stand: Stand) -> None:
        lanes = await stand.lanes()
        await stand.serve(lanes, placement=2, memory=1)
        stand.engine.down = True
        with pytest.raises(EngineUnreachable):
            await stand.serve(lanes, None, placement=0, memory=0)
        assert stand.as_found()

    run(test)


def test_a_value_that_does_not_take_is_seen() -> None:
    async def test(stand: Stand) -> None:
        lanes = await stand.lanes()
        stand.host.stuck.add("placement")
        answer = await stand.serve(lanes, placement=2, memory=1)
        assert answer.effective == {"placement": 0, "memory": 1}

    run(test)


def test_a_host_that_fails_half_way_is_put_back_and_said() -> None:
    async def test(stand: Stand) -> None:
        lanes = await stand.lanes()
        stand.host.broken.add("memory")
        with pytest.raises(EngineError, match="memory"):
            await stand.serve(lanes, placement=2, memory=1)
        stand.host.broken.clear()
        await lanes.state()  # the way back had failed too, and is tried again
        assert stand.as_found() and stand.engine.epoch == 0

    run(test)


@pytest.mark.parametrize("call", range(1, 9))
@pytest.mark.parametrize("after", [False, True])
def test_a_daemon_that_dies_at_any_change_of_the_host_leaves_it_recoverable(call: int, after: bool) -> None:
    async def test(stand: Stand) -> None:
        lanes = await stand.lanes()
        stand.host.dies_at, stand.host.dies_after = call, after
        try:
            await stand.serve(lanes, placement=1)
            await stand.serve(lanes, placement=2, memory=1)
            await stand.serve(lanes, None, placement=0, memory=0)
            await lanes.keep({"placement": 2, "memory": 1}, actor="test", now=1.0, campaign_id=None)
        except Killed:
            pass
        stand.host.dies_at = None
        ended = await recover_host(stand.host, stand.journal, 9.0, boot_id="host-1")
        assert stand.open_changes() == []
        if not any(entry.outcome == "done" for entry in ended) and call < 8:
            assert stand.as_found()

    run(test)


def test_a_winner_is_kept_and_taken_back() -> None:
    async def test(stand: Stand) -> None:
        lanes = await stand.lanes()
        winner = {"placement": 2.0, "memory": 1.0, "watermark": 0.0}
        await stand.serve(lanes, **winner)
        own, trouble = await lanes.keep(winner, actor="campaign 1", now=5.0, campaign_id=1)
        assert (own, trouble) == ({"watermark": 0.0}, None)
        await lanes.set_knobs(own, if_epoch=stand.engine.epoch, lease_seconds=None)
        assert stand.engine.mark == "placement=split:4 memory=node:4"
        assert (await lanes.state()).values["placement"] == 2
        stand.engine.now += 100.0
        assert (await lanes.state()).values["placement"] == 2 and not stand.as_found()
        (standing,) = stand.journal.standing("host-1", "host")
        assert (standing.kind, standing.campaign_id) == ("promotion", 1)
        await lanes.drop({"placement": 0, "memory": 0}, actor="campaign 1", now=6.0)
        assert stand.as_found() and stand.journal.standing("host-1", "host") == []

    run(test)


def test_a_winner_that_does_not_hold_is_not_kept() -> None:
    async def test(stand: Stand) -> None:
        lanes = await stand.lanes()
        stand.host.stuck.add("placement")
        _, trouble = await lanes.keep({"placement": 2}, actor="campaign 1", now=5.0, campaign_id=1)
        assert trouble is not None and "placement" in trouble
        stand.host.broken.add("memory")
        with pytest.raises(EngineError, match="memory"):
            await lanes.keep({"memory": 1}, actor="campaign 1", now=5.0, campaign_id=1)

    run(test)


def test_marks_of_many_knobs_are_short_and_different() -> None:
    async def test(stand: Stand) -> None:
        texts = {f"a_knob_with_a_long_name_{i}": ("as_found", "one", "two") for i in range(4)}
        stand.host.values |= dict.fromkeys(texts, "as_found")
        lanes = LaneControl(
            stand.engine,
            stand.host,
            stand.journal,
            lambda: 0.0,
            await stand.engine.state(),
            texts,
        )
        marks = {
            lanes._mark({name: known[int(i >> k & 1)] for k, (name, known) in enumerate(texts.items())})
            for i in range(16)
        }
        assert len(marks) == 16 and max(map(len, marks)) <= 64

    run(test)


def test_a_host_that_cannot_be_read_is_said() -> None:
    class Blind(Host):
        async def choices(self) -> dict[str, tuple[str, ...]]:
            raise HostError("no such process")

    async def test(stand: Stand) -> None:
        stand.host = Blind()
        with pytest.raises(EngineError, match="no such process"):
            await stand.lanes()

    run(test)
