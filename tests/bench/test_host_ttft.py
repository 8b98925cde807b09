"""The short form of the 32B measurement: whole campaigns over the host lane in virtual time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench import host_ttft

pytestmark = pytest.mark.campaign


@pytest.mark.parametrize("scenario", host_ttft.STORIES)
def test_the_host_lane_alone_brings_ttft_down(scenario: str, say: Callable[[str], None]) -> None:
    found = host_ttft.outcomes(range(111, 115), [scenario])
    say(f"{host_ttft.table(found)}\n{host_ttft.summary(found)}")
    assert host_ttft.reached(found)
