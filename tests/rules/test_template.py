"""Texts of rules: two plain substitutions, and numbers as Go prints them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.template import TemplateError, number, parse


def test_labels_and_the_value_are_filled_in() -> None:
    text = parse("card {{ $labels.npu }} at {{$value}} C, {{ $labels.npu }}")
    assert text.render({"npu": "3"}, 86.5) == "card 3 at 86.5 C, 3"
    assert text.uses_value


def test_a_label_that_is_not_there_is_empty_and_plain_text_stays() -> None:
    assert parse("a {{ $labels.gone }}b }} { $value }").render({}, 1.0) == "a b }} { $value }"


@pytest.mark.parametrize(
    "text",
    [
        "{{ humanize $value }}",
        "{{ $value | humanize }}",
        "{{ if $value }}x{{ end }}",
        "{{- $value -}}",
        "{{ .Labels.npu }}",
        "{{ $labels.__name__ }}",
        "{{ $labels }}",
        "{{ $value",
        "{{{ $value }}",
    ],
)
def test_anything_else_of_a_template_is_refused_with_what_is_possible(text: str) -> None:
    with pytest.raises(TemplateError, match=r"only \{\{ \$labels.NAME \}\} and \{\{ \$value \}\}"):
        parse(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "-0"),
        (1.0, "1"),
        (-2.5, "-2.5"),
        (100000.0, "100000"),
        (999999.5, "999999.5"),
        (1e6, "1e+06"),
        (123456789.5, "1.234567895e+08"),
        (0.0001, "0.0001"),
        (0.00001234, "1.234e-05"),
        (1e100, "1e+100"),
        (math.nan, "NaN"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
    ],
)
def test_numbers_are_those_of_go(value: float, text: str) -> None:
    assert number(value) == text


@given(st.floats(allow_nan=False))
def test_a_number_says_exactly_the_value(value: float) -> None:
    assert float(number(value)) == value


@given(st.text(max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        made = parse(text)
    except TemplateError:
        assert "{{" in text
    else:
        assert made.holes or made.render({}, 0.0) == text
