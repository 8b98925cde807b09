"""Runs that a person orders: walked, counted, refused, and told by their own number."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.daemon.acting.driver_stand import DriverStand
from web.body import NotFound, Refused


@pytest.fixture
def stand(tmp_path: Path) -> DriverStand:
    return DriverStand(tmp_path)


def test_a_person_walks_one_and_hears_its_number(stand: DriverStand) -> None:
    async def story() -> None:
        with pytest.raises(Refused, match="try again"):
            stand.driver.order("hot", {"npu": "3"}, dry_run=True)
        await stand.ticks(1, 91.0)
        begun = stand.driver.order("hot", {"npu": "3"}, dry_run=True)
        assert begun["run"] == 1
        assert begun["dry_run"] is True
        await stand.ticks(20, 91.0)

    before = stand.here.values()
    stand.here.stand.live(story())
    (run,) = stand.runs
    assert (run.state, run.dry_run, run.source) == ("skipped", True, "manual")
    assert stand.here.values() == before


def test_a_dry_run_uses_the_cool_down_up(stand: DriverStand) -> None:
    async def story() -> None:
        await stand.ticks(1, 91.0)
        stand.driver.order("hot", {"npu": "3"}, dry_run=True)
        await stand.ticks(20, 91.0)
        begun = stand.driver.order("hot", {"npu": "3"}, dry_run=False)
        assert begun["state"] == "skipped"
        assert "cool-down" in begun["reason"]

    stand.here.stand.live(story())


@pytest.mark.parametrize("how", ["paused", "kill switch"])
def test_a_dry_run_is_walked_though_nothing_may_be_changed(stand: DriverStand, how: str) -> None:
    before = stand.here.values()

    async def story() -> None:
        await stand.ticks(1, 91.0)
        stand.halt(how)
        stand.driver.order("hot", {"npu": "3"}, dry_run=True)
        await stand.ticks(20, 91.0)

    stand.here.stand.live(story())
    (run,) = stand.runs
    assert run.state == "skipped"
    assert "dry run: would have" in (run.reason or "")
    assert stand.here.values() == before


def test_the_number_is_that_of_the_order_though_another_run_of_the_playbook_moves_on(
    stand: DriverStand,
) -> None:
    async def story() -> None:
        await stand.ticks(1, 70.0)
        stand.driver.order("hot", {"npu": "3"}, dry_run=True)
        # Its check has waited long enough: it ends in the step that takes the next order.
        await asyncio.sleep(40.0)
        begun = stand.driver.order("hot", {"npu": "4"}, dry_run=True)
        assert begun["run"] == 2
        assert [run.state for run in stand.runs] == ["inconclusive", "running"]

    stand.here.stand.live(story())


def test_one_that_there_is_not_is_said_with_those_there_are(stand: DriverStand) -> None:
    with pytest.raises(NotFound, match="known are hot"):
        stand.driver.order("cold", {}, dry_run=True)
