"""Patterns describe the texts that they describe elsewhere, and a hostile one costs no more than another."""

from __future__ import annotations

import re
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.pattern import LONGEST_PATTERN, Pattern, PatternError

LEAVES = st.sampled_from(
    ["a", "b", "c", ".", "[ab]", "[^a]", "[a-c]", r"\.", r"\d", r"\w", r"[\d-]", r"\D", "-", "1"]
)
PATTERNS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("|".join),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{2,}", "{0}", "*?"])).map(
            lambda pair: f"({pair[0]}){pair[1]}"
        ),
        inner.map(lambda one: f"(?:{one})"),
    ),
    max_leaves=8,
)


@given(PATTERNS, st.text("abc-.1\n", max_size=8))
def test_a_pattern_matches_what_it_does_elsewhere(pattern: str, text: str) -> None:
    assert Pattern(pattern).matches(text) is (re.fullmatch(pattern, text, re.ASCII) is not None)


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("", "", True),
        ("", "a", False),
        ("a|", "", True),
        (".*", "any thing", True),
        (".+", "", False),
        ("10\\.0\\.0\\.[0-9]+", "10.0.0.17", True),
        ("10\\.0\\.0\\.[0-9]+", "10.0.0.", False),
        ("^a$", "a", True),
        ("npu", "npu0", False),
        ("(?i)vLLM.*", "VLLm-0", True),
        ("[]a]+", "a]", True),
        ("[^]a]", "b", True),
        ("[a-]", "-", True),
        ("größe", "größe", True),
        ("\\s\\t", " \t", True),
        ("a{3}", "aaa", True),
        ("a{2,3}b", "ab", False),
    ],
)
def test_whole_texts_are_matched(pattern: str, text: str, expected: bool) -> None:
    assert Pattern(pattern).matches(text) is expected


@pytest.mark.parametrize(
    "pattern",
    [
        "(", ")", "a)", "[a", "a**", "a{2}{3}", "*", "a|*", "{2}", "a{", "a{,2}", "a{3,2}", "a{1001}", "\\", "\\p{L}",
        "\\1", "\\b", "(?=a)", "(?<n>a)", "(?P<n>a)", "a^", "a$b", "[z-a]", "[[:alpha:]]", "[a&&b]", "[\\D]", "[a-\\d]",
        "(?i", "a{٣}", "x" * (LONGEST_PATTERN + 1), "((((a{30}){30}){30}){30})", "(" * 30 + "a" + ")" * 30,
    ],
)  # fmt: skip
def test_what_is_not_known_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        Pattern(pattern)


def test_a_hostile_pattern_takes_no_time() -> None:
    began = process_time()
    for pattern in ("(x+x+)+y", "(x|x)*y", "(.*)*(.*)*(.*)*y", "(x?){60}x{60}y", "(a|x|ax)*y"):
        assert not Pattern(pattern).matches("x" * 5000)
    assert process_time() - began < 2.0
