"""Texts as numbers and back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from change.choices import UNLISTED, number, numbered, plain_part, worded, words
from change.knobs import differences, problems, search_space

OPTIONS = {"placement": ("as_found", "split:6", "split:4")}
CEILINGS = {"batch_max_tokens": 8192.0, "placement": 2.0}
FLOORS = {"batch_max_tokens": 256.0, "placement": 0.0}


@given(st.integers(0, 2), st.floats(0, 1e6))
def test_what_is_worded_is_read_again(place: int, other: float) -> None:
    values = {"placement": float(place), "watermark": other}
    assert numbered(worded(values, OPTIONS), OPTIONS) == values


def test_a_text_that_is_no_choice_any_more_makes_the_whole_config_unusable() -> None:
    assert numbered({"placement": "split:2", "watermark": 0.1}, OPTIONS) is None
    assert numbered({"governor": "performance"}, OPTIONS) is None


def test_something_else_in_force_is_said_to_be_that() -> None:
    assert number("split:2", OPTIONS["placement"]) == number(None, OPTIONS["placement"]) == UNLISTED
    assert words("placement", UNLISTED, OPTIONS) == "something else"
    assert words("batch_max_tokens", 512.0, OPTIONS) == "512"


def test_the_plain_part_is_what_an_engine_understands() -> None:
    assert plain_part({"placement": "split:6", "watermark": 0.1}) == {"watermark": 0.1}


def test_differences_are_told_in_the_texts() -> None:
    (text,) = differences({"placement": 2.0}, {"placement": UNLISTED}, OPTIONS)
    assert text == "placement was asked to be split:4 and is something else"


def test_a_choice_has_places_and_nothing_between_them() -> None:
    for place in (0, 1, 2):
        assert problems({"placement": place}, CEILINGS, FLOORS) == []
    for wrong in (-1, 3, 0.5, float("nan")):
        assert problems({"placement": wrong}, CEILINGS, FLOORS)


def test_choices_are_searched_with_the_engines_own_knobs_or_by_name() -> None:
    values = {"batch_max_tokens": 2048.0, "placement": 0.0}
    assert [r.name for r in search_space(values, CEILINGS, FLOORS)] == ["batch_max_tokens", "placement"]
    (one,) = search_space(values, CEILINGS, FLOORS, ["placement"])
    assert (one.choice, one.low, one.high) == (True, 0, 2)


def test_a_host_knob_without_a_host_lane_is_refused_with_what_it_needs() -> None:
    try:
        search_space({"batch_max_tokens": 2048.0}, CEILINGS, FLOORS, ["placement"])
    except ValueError as error:
        assert "host lane" in str(error) and "plugin" in str(error)
    else:
        raise AssertionError("it was taken")
