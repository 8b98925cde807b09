"""What values a knob may have: told from text, written back, refused in words."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from change.catalogue.domain import Choices, Domain, Json, Numbers, Switch, Words, complaint, told, written
from change.server import Setting

TOKENS = Numbers(least=1, most=1000)
SHARE = Numbers(least=0.05, most=1, integer=False)


@pytest.mark.parametrize(
    ("domain", "text", "value"),
    [
        (TOKENS, "128", 128),
        (TOKENS, " 64.0 ", 64),
        (TOKENS, "16k", 16000),
        (TOKENS, "16K", 16384),
        (TOKENS, "1.5k", 1500),
        (TOKENS, "1.5", None),
        (TOKENS, "None", None),
        (TOKENS, "1e999", None),
        (SHARE, "0.92", 0.92),
        (Switch(), "True", True),
        (Switch(), "0", False),
        (Switch(), "yes", None),
        (Choices(("auto", "fp8")), "auto", "auto"),
        (Words(several=True), "[1, 2, 4]", "1 2 4"),
        (Json(), '{"a": 1}', '{"a": 1}'),
        (Json(), "{", None),
    ],
)
def test_a_text_is_told(domain: Domain, text: str, value: Setting | None) -> None:
    found = told(domain, text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("domain", "value", "text"),
    [
        (TOKENS, 0, "is 0: expected at least 1"),
        (TOKENS, 1001, "is 1001: expected at most 1000"),
        (TOKENS, 1.5, "is 1.5: expected a whole number of tokens"),
        (TOKENS, True, "is True: expected a number of tokens"),
        (TOKENS, "128", "is '128': expected a number of tokens"),
        (SHARE, math.nan, "is nan: expected a number of tokens"),
        (Numbers(least=8, most=9, zero_is_off=True), 0, None),
        (Switch(), 1, "is 1: expected true or false"),
        (Choices(("a", "b")), "c", "is 'c': expected one of a, b"),
        (Choices(("a", "b"), others=True), "c", None),
        (Words(), "a\nb", "is 'a\\nb': expected words"),
        (Json(), "[1]", None),
        (Json(), "1", "is '1': expected the text of a JSON object or list"),
    ],
)
def test_a_value_is_judged_in_words(domain: Domain, value: Setting, text: str | None) -> None:
    assert complaint(domain, value, "tokens") == text


@given(st.integers(1, 1000))
def test_a_number_comes_back_as_it_was_written(value: int) -> None:
    assert told(TOKENS, written(TOKENS, value)) == value


@given(st.floats(0.05, 1))
def test_a_share_comes_back_as_it_was_written(value: float) -> None:
    assert told(SHARE, written(SHARE, value)) == value


@given(st.text(), st.sampled_from([TOKENS, SHARE, Switch(), Choices(("a",)), Words(), Words(True), Json()]))
def test_any_text_is_told_or_nothing(text: str, domain: Domain) -> None:
    value = told(domain, text)
    assert value is None or isinstance(value, int | float | str)
