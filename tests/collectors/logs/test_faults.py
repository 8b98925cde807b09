"""The device's fault events are taken apart by their bits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.logs.faults import fault, fault_in


@pytest.mark.parametrize(
    "text",
    [
        "[TsdEVENT] Event id=0x80e18400.",
        "dms event (event_id=0x80e18400; devid=1)",
        "event_id:  [0x80E18400]",
        "(Node Type=0x70; Node Id=0x0; Sensor Type=0xc2; Sensor Id=0x1; event_state=0)",
    ],
)
def test_every_way_to_write_one(text: str) -> None:
    found = fault_in(text)
    assert found is not None
    assert (found.event_id, found.meaning) == (0x80E18400, "HBM: multi-bit ECC error met by a process")
    assert found.severity == "critical"


def test_an_id_may_have_a_meaning_of_its_own() -> None:
    assert fault(0x8C2FA009).severity == "info"


def test_half_known_events_say_which_half() -> None:
    assert fault(1 << 31 | 0x70 << 17 | 0x1FFFF).meaning == "HBM: unknown kind of fault"
    assert fault(1 << 31 | 0x3FF0 << 17 | 0x18008).meaning == "unknown unit: multi-bit ECC error"
    assert fault(1 << 31 | 0x3FF0 << 17 | 0x1FFFF).meaning is None


@pytest.mark.parametrize(
    "text",
    [
        "no event",
        "Event id=0x80e184",
        "event_id=12",
        "Sensor Type=0xc2; event_state=0; Node Type=0x70;",
        "Node Type=0x70; Sensor Type=0xc2; event_state=999",
        "Node Type=0xffff; Sensor Type=0xc2; event_state=1",
    ],
)
def test_what_is_no_event(text: str) -> None:
    assert fault_in(text) is None


@given(st.integers(0, 2**32 - 1))
def test_every_id_has_an_answer(event_id: int) -> None:
    assert fault(event_id).event_id == event_id
