"""Knobs as coordinates."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.space import Dimension, Space, round_number

BUDGET = Dimension("batch_max_tokens", 256, 8192, log=True, integer=True)
CAP = Dimension("max_prefill_tokens", 64, 8192, log=True, integer=True, zero_is_off=True)
WATERMARK = Dimension("watermark", 0.0, 0.2, log=False, integer=False)


@given(st.sampled_from([BUDGET, CAP, WATERMARK]), st.floats(0, 1))
def test_every_coordinate_is_a_value_inside_the_bounds(axis: Dimension, place: float) -> None:
    value = axis.decode(place)
    assert (axis.zero_is_off and value == 0) or axis.low <= value <= axis.high
    assert not axis.integer or value == int(value)


@given(st.sampled_from([BUDGET, CAP, WATERMARK]), st.floats(0, 1))
def test_encoding_a_decoded_value_comes_back_to_it(axis: Dimension, place: float) -> None:
    value = axis.decode(place)
    assert axis.decode(axis.encode(value)) == value


def test_a_cap_that_is_off_stands_above_the_largest_cap() -> None:
    assert CAP.encode(0) == 1.0 > CAP.encode(8192)
    assert CAP.decode(1.0) == 0


@pytest.mark.parametrize(
    ("value", "written"), [(500, 512), (530, 512), (600, 640), (5000, 5120), (7, 7), (14, 14)]
)
def test_numbers_are_rounded_to_what_a_person_writes(value: float, written: int) -> None:
    assert round_number(value) == written


def test_fixed_knobs_are_part_of_every_config() -> None:
    space = Space((BUDGET,), {"max_num_seqs": 32})
    assert space.decode((0.0,)) == {"max_num_seqs": 32, "batch_max_tokens": 256}


def test_a_knob_that_is_not_honoured_leaves_the_search() -> None:
    space = Space((BUDGET, CAP), {}).without("max_prefill_tokens", 0)
    assert [axis.name for axis in space.dimensions] == ["batch_max_tokens"]
    assert space.decode((1.0,)) == {"max_prefill_tokens": 0, "batch_max_tokens": 8192}


def test_an_axis_with_nothing_on_it_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing to search"):
        Dimension("batch_max_tokens", 64, 64, log=True, integer=True)


@pytest.mark.parametrize("value", [0.0, 16.0, 320.0, 7168.0, 8192.0])
def test_a_value_comes_back_from_its_coordinate(value: float) -> None:
    axis = Dimension("max_prefill_tokens", 16.0, 8192.0, log=True, integer=True, zero_is_off=True)
    assert axis.decode(axis.encode(value)) == value


PLACEMENT = Dimension("placement", 0, 3, log=False, integer=True, choice=True)
TEXTS = {"placement": ("as_found", "split:6", "split:4", "whole:6")}
MIXED = Space((BUDGET, PLACEMENT), {"watermark": 0.0}, TEXTS)


@given(st.floats(0, 1), st.floats(0, 1))
def test_a_point_is_one_of_the_texts_for_the_sampler_and_back(budget: float, place: float) -> None:
    values = MIXED.decode((budget, place))
    point = MIXED.encode(values)
    params = MIXED.params(point)
    assert params["placement"] in TEXTS["placement"]
    assert MIXED.decode(MIXED.point(params)) == values


def test_every_text_is_as_far_from_every_other_for_the_surrogate() -> None:
    points = np.array([(0.5, PLACEMENT.encode(place)) for place in range(4)])
    seen = MIXED.features(points)
    assert seen.shape == (4, 4)
    assert {tuple(row) for row in seen[:, 1:]} == {(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)}


def test_a_knob_that_is_held_keeps_the_texts_of_the_others() -> None:
    held = MIXED.without("batch_max_tokens", 2048.0)
    assert [axis.name for axis in held.dimensions] == ["placement"]
    assert held.params((1.0,)) == {"placement": "whole:6"}
