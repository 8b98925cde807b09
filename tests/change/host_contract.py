"""The contract of `HostControl`, for every hand: subclass it, name the class `Test...`, and give it a host.

The host is as its engine and operator left it, and offers at least one value besides the one in force for some knob.
"""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager

import pytest

from change.host import HostChange, HostControl, HostError
from change.host_knobs import HOST_KNOBS


class HostContract(ABC):
    """What every hand does; `host` builds a fresh host with its hand."""

    @abstractmethod
    def host(self) -> AbstractContextManager[HostControl]:
        """Build a fresh host and its hand."""

    def run(self, test: Callable[[HostControl], Awaitable[None]]) -> None:
        with self.host() as hand:
            asyncio.run(test(hand))  # type: ignore[arg-type]

    def test_choices_are_of_the_catalogue_and_the_one_in_force_comes_first(self) -> None:
        async def test(hand: HostControl) -> None:
            choices = await hand.choices()
            assert choices
            for knob, values in choices.items():
                assert len(set(values)) == len(values) > 1
                assert (await hand.read(knob)).value == values[0]
                assert all(HOST_KNOBS[knob].problem(value) is None for value in values[1:])

        self.run(test)

    def test_reading_changes_nothing_and_its_undo_is_json(self) -> None:
        async def test(hand: HostControl) -> None:
            for knob in await hand.choices():
                first, second = await hand.read(knob), await hand.read(knob)
                assert first == second
                assert (first.knob, first.scope) == (knob, HOST_KNOBS[knob].scope)
                assert first.undo is not None
                assert json.loads(json.dumps(dict(first.undo)))

        self.run(test)

    def test_what_is_applied_reads_back_and_what_is_restored_is_as_before(self) -> None:
        async def test(hand: HostControl) -> None:
            for knob, values in (await hand.choices()).items():
                for value in values[1:]:
                    before = await hand.read(knob)
                    assert before.undo is not None
                    applied = await hand.apply(HostChange(knob, value))
                    assert (applied.knob, applied.value) == (knob, value)
                    assert (await hand.read(knob)).value == value
                    undo = json.loads(json.dumps(dict(before.undo)))  # as the journal gives it back
                    assert (await hand.restore(knob, undo)).value == before.value
                    assert await hand.read(knob) == before

        self.run(test)

    def test_applying_and_restoring_twice_is_as_once(self) -> None:
        async def test(hand: HostControl) -> None:
            knob, values = next(iter((await hand.choices()).items()))
            before = await hand.read(knob)
            assert before.undo is not None
            for _ in range(2):
                assert (await hand.apply(HostChange(knob, values[1]))).value == values[1]
            for _ in range(2):
                assert (await hand.restore(knob, before.undo)).value == before.value
            assert await hand.read(knob) == before

        self.run(test)

    def test_one_value_after_another_goes_back_to_what_was_before_the_first(self) -> None:
        async def test(hand: HostControl) -> None:
            for knob, values in (await hand.choices()).items():
                before = await hand.read(knob)
                assert before.undo is not None
                for value in values[1:]:
                    await hand.apply(HostChange(knob, value))
                await hand.restore(knob, before.undo)
                assert await hand.read(knob) == before

        self.run(test)

    def test_what_does_not_exist_is_refused_in_words(self) -> None:
        async def test(hand: HostControl) -> None:
            with pytest.raises(HostError, match="turbo"):
                await hand.read("turbo")
            with pytest.raises(HostError, match="turbo"):
                await hand.apply(HostChange("turbo", "1"))
            knob, values = next(iter((await hand.choices()).items()))
            with pytest.raises(HostError):
                await hand.apply(HostChange(knob, "sideways"))
            assert (await hand.read(knob)).value == values[0]

        self.run(test)
