"""The word to the guardian: renewed while it holds, taken back at once when it does not."""

from __future__ import annotations

import asyncio

from change.server import ServerError
from daemon.acting.pledge import GOOD_SECONDS, RENEW_SECONDS, Pledge
from daemon.notices import Notices


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
