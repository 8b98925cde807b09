"""What an action's values mean: numbers as they are, factors of what is in force, inside what the engine can take."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from change.engine import EngineState
from change.knobs import problems
from daemon.acting.values import wanted
from rules.actions import ActionRefused

STATE = EngineState(
    plugin="0.1.0",
    engine="vllm",
    engine_version="0.32.0",
    boot_id="b",
    epoch=3,
    values={"batch_max_tokens": 4096.0, "max_num_seqs": 128.0, "max_prefill_tokens": 0.0, "watermark": 0.02},
    ceilings={
        "batch_max_tokens": 8192.0,
        "max_num_seqs": 256.0,
        "max_prefill_tokens": 8192.0,
        "watermark": 0.5,
    },
    floors={"batch_max_tokens": 128.0, "max_num_seqs": 1.0},
    lease_remaining_seconds=None,
    gate="open",
    dp_ranks=1,
    api_servers=1,
    scheduler="s",
    scheduler_known=True,
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [("x0.5", 64.0), ("x1.01", 129.0), ("x100", 256.0), ("x0.0001", 1.0), (17, 17.0), ("17", 17.0)],
)
def test_a_value_is_a_number_or_a_factor_held_inside_the_bounds(value: object, expected: float) -> None:
    assert wanted({"max_num_seqs": value}, STATE) == {"max_num_seqs": expected}


@pytest.mark.parametrize(
    ("in_force", "value", "expected"),
    [
        (128.0, "x0.5", 64.0),
        (64.0, "x0.25", 32.0),
        (16.0, "x0.5", 16.0),  # a person set less: it is not raised, nor lowered further
        (16.0, "x4", 64.0),
        (64.0, 4, 4.0),  # a number is what it says
    ],
)
def test_a_factor_does_not_lead_under_an_eighth_of_the_usual_value(
    in_force: float, value: object, expected: float
) -> None:
    state = replace(STATE, values={**STATE.values, "max_num_seqs": in_force})
    assert wanted({"max_num_seqs": value}, state, {"max_num_seqs": 256.0}) == {"max_num_seqs": expected}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "names no knob"),
        ({"block_size": 64}, "has no block_size"),
        ({"max_num_seqs": "half"}, "expected a number"),
        ({"max_num_seqs": True}, "expected a number"),
        ({"max_num_seqs": "nan"}, "expected a number"),
        ({"max_num_seqs": "inf"}, "expected a number"),
        ({"max_num_seqs": 1000}, "ceiling"),
        ({"max_num_seqs": 0.5}, "whole number"),
        ({"max_prefill_tokens": "x2"}, "off now"),
        ({"batch_max_tokens": 64}, "below"),
    ],
)
def test_what_the_engine_cannot_take_is_refused_with_the_reason(
    arguments: dict[str, object], said: str
) -> None:
    with pytest.raises(ActionRefused, match=said):
        wanted(arguments, STATE)


@given(
    st.floats(min_value=0.0, max_value=9999.0, allow_nan=False),
    st.integers(min_value=1, max_value=256),
    st.integers(min_value=256, max_value=8192),
)
def test_a_factor_never_leaves_what_the_engine_can_take(by: float, seqs: int, budget: int) -> None:
    state = replace(
        STATE, values={**STATE.values, "max_num_seqs": float(seqs), "batch_max_tokens": float(budget)}
    )
    state = replace(state, floors={"batch_max_tokens": float(seqs), "max_num_seqs": 1.0})
    found = wanted({"batch_max_tokens": f"x{by:.4f}"}, state)
    assert problems({**state.values, **found}, state.ceilings, state.floors) == []
