"""The contract of `EngineControl`, for every hand: subclass it, name the class `Test...`, and give it a laboratory.

The engine in the laboratory is freshly started, has `batch_max_tokens` among its knobs, and nobody else changes it.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

import pytest

from change.engine import GAP_BUCKETS, EngineControl, EngineError, StaleEpoch

KNOB = "batch_max_tokens"


@dataclass(frozen=True)
class Laboratory:
    """An engine to try the hand on; `advance` lets its clock go on by some seconds, `serve` finishes some requests.

    `lease` is a lease that runs out well within what the test can wait.
    """

    control: EngineControl
    advance: Callable[[float], Awaitable[None]]
    serve: Callable[[], Awaitable[None]]
    lease: float = 2.0


class EngineContract(ABC):
    """What every hand does; `laboratory` builds a fresh engine."""

    @abstractmethod
    def laboratory(self) -> AbstractAsyncContextManager[Laboratory]:
        """Build a fresh engine and its hand."""

    def run(self, test: Callable[[Laboratory], Awaitable[None]]) -> None:
        async def within() -> None:
            async with self.laboratory() as lab:
                await test(lab)

        asyncio.run(within())

    def test_a_fresh_engine_is_at_epoch_0_open_and_without_a_lease(self) -> None:
        async def test(lab: Laboratory) -> None:
            state = await lab.control.state()
            assert state.epoch == 0
            assert state.gate == "open"
            assert state.lease_remaining_seconds is None
            assert state.boot_id
            assert state.scheduler_known

        self.run(test)

    def test_every_value_has_a_floor_and_a_ceiling_around_it(self) -> None:
        async def test(lab: Laboratory) -> None:
            state = await lab.control.state()
            assert KNOB in state.values
            assert state.values.keys() == state.ceilings.keys() == state.floors.keys()
            for name, value in state.values.items():
                off = name in ("max_prefill_tokens", "long_prefill_tokens") and value == 0
                assert off or state.floors[name] <= value <= state.ceilings[name], name

        self.run(test)

    def test_applied_values_are_effective_under_a_new_epoch(self) -> None:
        async def test(lab: Laboratory) -> None:
            before = await lab.control.state()
            value = other_value(before.values[KNOB], before.floors[KNOB])
            answer = await lab.control.set_knobs({KNOB: value}, if_epoch=before.epoch, lease_seconds=None)
            after = await lab.control.state()
            assert answer.status == "applied"
            assert dict(answer.requested) == {KNOB: value}
            assert answer.effective[KNOB] == value
            assert answer.epoch == after.epoch == before.epoch + 1
            assert dict(after.values) == {**before.values, KNOB: value}
            assert after.boot_id == before.boot_id
            assert after.lease_remaining_seconds is None

        self.run(test)

    def test_a_stale_epoch_is_refused_with_the_current_one(self) -> None:
        async def test(lab: Laboratory) -> None:
            before = await lab.control.state()
            value = other_value(before.values[KNOB], before.floors[KNOB])
            with pytest.raises(StaleEpoch) as caught:
                await lab.control.set_knobs({KNOB: value}, if_epoch=before.epoch + 7, lease_seconds=None)
            assert caught.value.epoch == before.epoch
            assert await lab.control.state() == before

        self.run(test)

    @pytest.mark.parametrize("wrong", ["above", "below", "fraction", "unknown"])
    def test_values_that_cannot_be_leave_the_engine_unchanged(self, wrong: str) -> None:
        async def test(lab: Laboratory) -> None:
            before = await lab.control.state()
            good = other_value(before.values[KNOB], before.floors[KNOB])
            values = {
                "above": {KNOB: before.ceilings[KNOB] + 1},
                "below": {KNOB: before.floors[KNOB] - 1},
                "fraction": {KNOB: good + 0.5},
                "unknown": {KNOB: good, "no_such_knob": 1.0},
            }[wrong]
            with pytest.raises(EngineError):
                await lab.control.set_knobs(values, if_epoch=before.epoch, lease_seconds=None)
            assert await lab.control.state() == before

        self.run(test)

    def test_renewing_a_lease_keeps_the_epoch(self) -> None:
        async def test(lab: Laboratory) -> None:
            before = await lab.control.state()
            value = other_value(before.values[KNOB], before.floors[KNOB])
            first = await lab.control.set_knobs(
                {KNOB: value}, if_epoch=before.epoch, lease_seconds=lab.lease, revert_to=before.values
            )
            await lab.advance(0.6 * lab.lease)
            second = await lab.control.set_knobs(
                {KNOB: value}, if_epoch=first.epoch, lease_seconds=lab.lease, revert_to=before.values
            )
            await lab.advance(0.6 * lab.lease)
            state = await lab.control.state()
            assert first.epoch == second.epoch == state.epoch
            assert state.values[KNOB] == value
            assert state.lease_remaining_seconds is not None
            assert 0 < state.lease_remaining_seconds <= lab.lease

        self.run(test)

    def test_a_lease_that_runs_out_returns_to_revert_to_under_a_new_epoch(self) -> None:
        async def test(lab: Laboratory) -> None:
            before = await lab.control.state()
            value = other_value(before.values[KNOB], before.floors[KNOB])
            answer = await lab.control.set_knobs(
                {KNOB: value}, if_epoch=before.epoch, lease_seconds=lab.lease, revert_to=before.values
            )
            await lab.advance(1.5 * lab.lease)
            after = await lab.control.state()
            assert dict(after.values) == dict(before.values)
            assert after.epoch == answer.epoch + 1
            assert after.lease_remaining_seconds is None

        self.run(test)

    def test_the_same_values_without_a_lease_make_them_stay(self) -> None:
        async def test(lab: Laboratory) -> None:
            before = await lab.control.state()
            value = other_value(before.values[KNOB], before.floors[KNOB])
            leased = await lab.control.set_knobs(
                {KNOB: value}, if_epoch=before.epoch, lease_seconds=lab.lease, revert_to=before.values
            )
            kept = await lab.control.set_knobs({KNOB: value}, if_epoch=leased.epoch, lease_seconds=None)
            await lab.advance(1.5 * lab.lease)
            after = await lab.control.state()
            assert kept.epoch == leased.epoch == after.epoch
            assert after.values[KNOB] == value
            assert after.lease_remaining_seconds is None

        self.run(test)

    def test_a_change_for_good_during_a_lease_keeps_nothing_else_of_the_trial(self) -> None:
        async def test(lab: Laboratory) -> None:
            before = await lab.control.state()
            other = "max_num_seqs"
            tried = {
                KNOB: other_value(before.values[KNOB], before.floors[KNOB]),
                other: other_value(before.values[other], before.floors[other]),
            }
            leased = await lab.control.set_knobs(
                tried, if_epoch=before.epoch, lease_seconds=lab.lease, revert_to=before.values
            )
            await lab.control.set_knobs({other: tried[other]}, if_epoch=leased.epoch, lease_seconds=None)
            await lab.advance(1.5 * lab.lease)
            after = await lab.control.state()
            assert dict(after.values) == {**before.values, other: tried[other]}

        self.run(test)

    def test_another_mark_begins_an_epoch_though_no_value_changes(self) -> None:
        async def test(lab: Laboratory) -> None:
            before = await lab.control.state()
            same = {KNOB: before.values[KNOB]}
            assert before.mark == ""
            marked = await lab.control.set_knobs(
                same, if_epoch=before.epoch, lease_seconds=None, mark="node:6"
            )
            again = await lab.control.set_knobs(
                same, if_epoch=marked.epoch, lease_seconds=None, mark="node:6"
            )
            silent = await lab.control.set_knobs(same, if_epoch=again.epoch, lease_seconds=None)
            assert silent.epoch == again.epoch == marked.epoch == before.epoch + 1
            assert (await lab.control.state()).mark == "node:6"

        self.run(test)

    def test_a_lease_that_runs_out_takes_its_mark_along(self) -> None:
        async def test(lab: Laboratory) -> None:
            before = await lab.control.state()
            same = {KNOB: before.values[KNOB]}
            kept = await lab.control.set_knobs(same, if_epoch=before.epoch, lease_seconds=None, mark="a")
            leased = await lab.control.set_knobs(same, if_epoch=kept.epoch, lease_seconds=lab.lease, mark="b")
            assert (await lab.control.state()).mark == "b"
            await lab.advance(1.5 * lab.lease)
            after = await lab.control.state()
            assert (after.mark, after.epoch) == ("a", leased.epoch + 1)

        self.run(test)

    @pytest.mark.parametrize("mark", ["x" * 65, "two\nlines"])
    def test_a_mark_that_cannot_be_shown_is_refused(self, mark: str) -> None:
        async def test(lab: Laboratory) -> None:
            before = await lab.control.state()
            same = {KNOB: before.values[KNOB]}
            with pytest.raises(EngineError, match="mark"):
                await lab.control.set_knobs(same, if_epoch=before.epoch, lease_seconds=None, mark=mark)
            assert (await lab.control.state()).epoch == before.epoch

        self.run(test)

    def test_the_gate_closes_reopens_on_request_and_reopens_by_itself(self) -> None:
        async def test(lab: Laboratory) -> None:
            async def gate() -> str:
                return (await lab.control.state()).gate

            await lab.control.gate("closed", lease_seconds=60, retry_after=1)
            assert await gate() == "closed"
            await lab.control.gate("open", lease_seconds=60, retry_after=1)
            assert await gate() == "open"
            await lab.control.gate("closed", lease_seconds=lab.lease, retry_after=1)
            assert await gate() == "closed"
            await lab.advance(1.5 * lab.lease)
            assert await gate() == "open"

        self.run(test)

    def test_the_gate_refuses_a_lease_over_two_minutes(self) -> None:
        async def test(lab: Laboratory) -> None:
            with pytest.raises(EngineError):
                await lab.control.gate("closed", lease_seconds=121, retry_after=1)
            assert (await lab.control.state()).gate == "open"

        self.run(test)

    def test_finished_requests_are_read_once_in_order(self) -> None:
        async def test(lab: Laboratory) -> None:
            await lab.serve()
            page = await lab.control.requests(0)
            seqs = [record.seq for record in page.records]
            assert seqs
            assert seqs == sorted(set(seqs))
            assert page.next_since == seqs[-1]
            assert page.lost == 0
            again = await lab.control.requests(page.next_since)
            assert not {record.seq for record in again.records} & set(seqs)

        self.run(test)

    def test_a_request_record_is_one_life_in_order_of_time(self) -> None:
        async def test(lab: Laboratory) -> None:
            await lab.serve()
            page = await lab.control.requests(0)
            for record in page.records:
                assert record.arrival <= record.finish <= page.now
                assert record.epoch_arrival <= record.epoch_finish
                if record.first_token is not None:
                    assert record.arrival <= record.first_token <= record.finish
                assert record.prompt_tokens >= record.cached_tokens >= 0
            for buckets in page.gaps.values():
                assert all(0 <= bucket < GAP_BUCKETS for bucket in buckets)
            gaps = sum(sum(buckets.values()) for buckets in page.gaps.values())
            assert gaps >= sum(max(record.output_tokens - 1, 0) for record in page.records)

        self.run(test)


def other_value(value: float, floor: float) -> float:
    """A value between floor and ceiling that is not the one in effect."""
    return floor if value != floor else floor + 1
