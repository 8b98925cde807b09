"""Alerts on their way to a playbook: what ends before it began starts nothing, and what has none is told of."""

from __future__ import annotations

import asyncio
from pathlib import Path

from collectors.sample import labels
from tests.daemon.acting.driver_stand import DriverStand


class SlowToAnswer:
    """An Alertmanager that takes two seconds to say that nothing is silenced."""

    async def suppressed(self, fingerprint: str, now: float) -> bool | None:
        await asyncio.sleep(2.0)
        return False


def test_an_alert_that_resolves_while_silences_are_asked_for_starts_nothing(tmp_path: Path) -> None:
    stand = DriverStand(tmp_path, silences=SlowToAnswer())
    stand.heat(90)

    async def story() -> None:
        alert = stand.fires()
        await stand.ticks(1)
        stand.driver.over(alert.fingerprint, stand.now)
        await stand.ticks(4)

    stand.here.stand.live(story())
    (run,) = stand.runs
    assert (run.state, run.reason) == ("skipped", "the alert resolved by itself")
    assert stand.acts == []


def test_an_alert_of_others_that_names_no_playbook_is_told_of(tmp_path: Path) -> None:
    stand = DriverStand(tmp_path)
    stand.driver.received(labels(alertname="Strange"), "0" * 16, stand.now)
    assert [one.text for one in stand.here.notices.standing() if "'Strange'" in one.text]
