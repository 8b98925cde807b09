"""The word to the guardian: renewed while it holds, taken back at once when it does not."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from change.server import ServerError
from daemon.acting.pledge import GOOD_SECONDS, RENEW_SECONDS, Pledge
from daemon.notices import Notices
from tests.daemon.acting.driver_stand import DriverStand
from tests.daemon.acting.test_driver import RESTART
from tests.rules.playbook.stand import HOT

AT_ONCE = RESTART.replace(", arguments: {when: quietest}", "")
RESCUE = RESTART.replace("when: quietest", "when: down")


class Guardian:
    def __init__(self) -> None:
        self.told: list[float] = []
        self.away = False

    async def stay(self, seconds: float) -> None:
        if self.away:
            raise ServerError("no guardian answers there")
        self.told.append(seconds)


def test_it_is_renewed_long_before_it_runs_out_and_taken_back() -> None:
    guardian, notices = Guardian(), Notices(lambda: 0.0)
    pledge = Pledge(guardian.stay, notices)

    async def story() -> None:
        for second in range(12):
            await pledge.tick(1000.0 + second, True)
        assert guardian.told == [GOOD_SECONDS] * 3
        await pledge.tick(1012.0, False)
        await pledge.tick(1013.0, False)

    asyncio.run(story())
    assert guardian.told == [*[GOOD_SECONDS] * 3, 0.0]
    assert 2 * RENEW_SECONDS < GOOD_SECONDS


def test_who_never_was_willing_says_nothing() -> None:
    guardian = Guardian()
    asyncio.run(Pledge(guardian.stay, Notices(lambda: 0.0)).tick(1.0, False))
    assert guardian.told == []


def test_a_guardian_that_is_away_is_said_once_and_asked_again() -> None:
    guardian, notices = Guardian(), Notices(lambda: 0.0)
    pledge = Pledge(guardian.stay, notices)
    guardian.away = True

    async def story() -> None:
        await pledge.tick(1.0, True)
        assert notices.holds("guardian")
        guardian.away = False
        await pledge.tick(2.0, True)

    asyncio.run(story())
    assert guardian.told == [GOOD_SECONDS]
    assert not notices.holds("guardian")


@pytest.mark.parametrize("text", [AT_ONCE, RESCUE], ids=["now", "down"])
def test_the_word_to_the_guardian_is_given_in_mode_act_and_not_while_paused(
    tmp_path: Path, text: str
) -> None:
    told: list[float] = []

    async def stay(seconds: float) -> None:
        told.append(seconds)

    stand = DriverStand(tmp_path, text, stay=stay)
    stand.here.page_answers()
    stand.live(2)
    assert told == [20.0]
    stand.modes.pause()
    stand.live(1)
    assert told == [20.0, 0.0]
    watching = DriverStand(tmp_path / "other", text, mode="observe", stay=stay)
    watching.here.page_answers()
    watching.live(10)
    assert told == [20.0, 0.0]


@pytest.mark.parametrize(
    ("text", "more", "served"),
    [
        (HOT, {}, True),
        (RESTART, {}, True),
        (AT_ONCE, {"acts_per_hour": 0}, True),
        (AT_ONCE, {"disabled": frozenset({"hot"})}, True),
        (AT_ONCE, {"of_rule": {}}, True),
        (AT_ONCE, {}, False),
    ],
    ids=["no restart", "only when quiet", "no act left", "disabled", "no rule", "never served"],
)
def test_nothing_is_promised_that_nobody_will_do(
    tmp_path: Path, text: str, more: dict[str, Any], served: bool
) -> None:
    told: list[float] = []

    async def stay(seconds: float) -> None:
        told.append(seconds)

    stand = DriverStand(tmp_path, text, stay=stay, **more)
    if served:
        stand.here.page_answers()
    stand.live(3)
    assert told == []


def test_the_word_is_taken_back_while_a_restarted_engine_cools_down(tmp_path: Path) -> None:
    told: list[float] = []

    async def stay(seconds: float) -> None:
        told.append(seconds)

    stand = DriverStand(tmp_path, AT_ONCE, stay=stay)
    stand.here.page_answers()
    stand.live(1)
    stand.fires()
    stand.live(200, 50.0)
    assert [run.state for run in stand.runs] == ["succeeded"]
    stand.here.page_answers()
    stand.live(10)
    assert told[-1] == 0.0
