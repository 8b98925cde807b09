"""From the daemon's objects to JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from web.plain import plain

LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
TREES = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))


@dataclass(frozen=True)
class Reading:
    value: float
    tags: tuple[str, ...]


@settings(max_examples=40)
@given(TREES)
def test_whatever_goes_in_comes_out_as_strict_json(tree: object) -> None:
    json.dumps(plain(tree), allow_nan=False)


def test_a_dataclass_becomes_an_object_and_a_number_that_is_none_becomes_unknown() -> None:
    assert plain({"a": Reading(float("nan"), ("x", "y"))}) == {"a": {"value": None, "tags": ["x", "y"]}}


def test_what_cannot_be_shown_is_an_error_and_not_a_guess() -> None:
    with pytest.raises(TypeError, match="object"):
        plain({"a": object()})
