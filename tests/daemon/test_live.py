"""The signs on the live page: what is known, trouble only where there is some, the worst card with its place."""

from __future__ import annotations

from typing import Any

from collectors.history import History
from collectors.sample import Labels, Sample, labels
from daemon.live import signs

NOW = 1_700_000_000.0
ENGINE = labels(engine="0", model="m")


def told(*readings: tuple[str, float, Labels]) -> dict[str, dict[str, Any]]:
    history = History()
    history.add((Sample(name, value, NOW, own) for name, value, own in readings), "derived")
    return {sign["name"]: sign for sign in signs(history)}


def card(npu: int, **more: str) -> Labels:
    return labels(npu=str(npu), chip="0", name="910B", **more)


def test_nothing_known_is_no_sign() -> None:
    assert told() == {}


def test_what_is_always_worth_a_look_is_there_and_no_trouble() -> None:
    found = told(
        ("trimtab_engine_queue_share_ratio", 0.0, ENGINE),
        ("trimtab_engine_kv_free_ratio", 0.4, ENGINE),
        ("trimtab_engine_kv_free_ratio", 0.1, labels(engine="0", model="m", server="b")),
    )
    assert {name: (sign["value"], sign["warn"]) for name, sign in found.items()} == {
        "queue_share_ratio": (0.0, False),
        "kv_free_ratio": (0.4, False),
    }


def test_a_stall_is_shown_when_it_is_suspected() -> None:
    for suspected in (0.0, 1.0):
        found = told(
            ("trimtab_engine_stalled_seconds", 75.0, ENGINE),
            ("trimtab_engine_stall_suspected", suspected, ENGINE),
        )
        assert [sign["value"] for sign in found.values()] == [75.0] * int(suspected)


def test_the_worst_card_is_named_and_small_skew_is_not() -> None:
    found = told(
        ("npu_throttled_share_ratio", 0.0, card(0, source="dcmi")),
        ("npu_throttled_share_ratio", 0.7, card(3, source="dcmi")),
        ("npu_skew_ratio", -0.3, card(2, of="clock")),
        ("npu_skew_ratio", 0.2, card(1, of="temperature")),
    )
    assert (found["throttled_share_ratio"]["value"], found["throttled_share_ratio"]["npu"]) == (0.7, "3")
    skewed = found["skew_ratio"]
    assert (skewed["value"], skewed["npu"], skewed["of"], skewed["warn"]) == (-0.3, "2", "clock", True)
    assert told(("npu_skew_ratio", 0.05, card(2, of="clock"))) == {}


def test_growth_is_shown_only_where_it_holds_all_along() -> None:
    for low in (-1.0, 1e6):
        found = told(
            ("npu_hbm_growth_bytes_per_hour", 2e6, card(0)),
            ("npu_hbm_growth_low_bytes_per_hour", low, card(0)),
        )
        assert [sign["value"] for sign in found.values()] == ([48e6] if low > 0 else [])
