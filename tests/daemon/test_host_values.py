"""What is known of the host's knobs between two readings."""

from __future__ import annotations

import asyncio

from change.host import HostError
from daemon.host_values import FRESH_SECONDS, HostValues
from tests.change.plain_host import PlainHost


class Failing(PlainHost):
    def __init__(self) -> None:
        super().__init__()
        self.fails = False
        self.readings = 0

    async def choices(self) -> dict[str, tuple[str, ...]]:
        self.readings += 1
        if self.fails:
            raise HostError("permission denied")
        return dict(await super().choices())


def read(values: HostValues, now: float, *, changed: bool = False) -> None:
    asyncio.run(values.read(now, changed=changed))


def test_it_is_read_seldom_and_at_once_after_a_change() -> None:
    host = Failing()
    values = HostValues(host)
    assert values.shown() is None
    for now in (100.0, 101.0, 100.0 + FRESH_SECONDS):
        read(values, now)
    assert host.readings == 2
    host.values["placement"] = "split:4"
    read(values, 131.0, changed=True)
    assert values.shown() == {"values": {"placement": "split:4", "swappiness": "60"}, "seen": 131.0}


def test_what_a_campaign_has_in_force_is_known_without_a_reading() -> None:
    values = HostValues(Failing())
    values.told({"in_force": {"values": {"batch_max_tokens": 512.0}}}, 1.0)
    values.told(None, 2.0)
    assert values.shown() is None
    values.told({"in_force": {"values": {"batch_max_tokens": 512.0, "placement": "whole:4"}}}, 3.0)
    assert values.shown() == {"values": {"placement": "whole:4"}, "seen": 3.0}


def test_what_cannot_be_read_is_unknown_and_not_as_before() -> None:
    host = Failing()
    values = HostValues(host)
    read(values, 1.0)
    host.fails = True
    read(values, 2.0, changed=True)
    assert values.known == {}
