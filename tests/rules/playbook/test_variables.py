"""Variables: whatever an alert's label holds, it stays a value."""

from __future__ import annotations

import re

import promql_parser
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.playbook.variables import Template, VariableError, names_in, said

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
NASTY = ['"} or vector(1) #', "a\nb", "\\", '\\"', "${npu}", "\x00\x1b", "'", "`", "}", "中\U0001f600", ""]


def only_matcher(text: str) -> tuple[str, str]:
    parsed = promql_parser.parse(text)
    assert isinstance(parsed, promql_parser.VectorSelector)
    assert parsed.matchers is not None
    (matcher,) = parsed.matchers.matchers
    return str(matcher.op), matcher.value


@pytest.mark.parametrize("quote", ['"', "'"])
@given(value=TEXTS | st.sampled_from(NASTY))
def test_a_label_value_is_one_matcher_whatever_it_holds(quote: str, value: str) -> None:
    template = Template(f"a{{x={quote}${{npu}}{quote}}}")
    assert only_matcher(template.fill({"npu": value})) == ("MatchOp.Equal", value)


@given(value=TEXTS | st.sampled_from(NASTY))
def test_in_a_pattern_a_value_means_itself(value: str) -> None:
    _, pattern = only_matcher(Template('a{x=~"(${npu}|b)"}').fill({"npu": value}))
    assert re.fullmatch(pattern, value)
    assert not re.fullmatch(pattern, value + "x")


@pytest.mark.parametrize("value", ["85", "-1.5", "1e3", ".5"])
def test_a_number_stands_where_a_number_is_wanted(value: str) -> None:
    assert Template("a > ${limit}").fill({"limit": value}) == f"a > ({value})"


@pytest.mark.parametrize("value", ["", "a", "1 or vector(1)", "1\n", "1)", "0x10", "Inf", "١"])
def test_what_is_no_number_is_refused_there(value: str) -> None:
    with pytest.raises(VariableError, match="stands for a number"):
        Template("a > ${limit}").fill({"limit": value})


def test_a_number_joins_nothing_beside_it() -> None:
    with pytest.raises(ValueError, match="unknown function"):
        promql_parser.parse(Template("up_${n}").fill({"n": "1"}))


def test_a_duration_stands_between_brackets() -> None:
    template = Template("rate(a[${window}]) > 0")
    assert template.sample() == "rate(a[5m]) > 0"
    assert template.fill({"window": "30s"}) == "rate(a[30s]) > 0"
    with pytest.raises(VariableError, match="duration"):
        template.fill({"window": "5m]) or vector(1) or rate(a[5m"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('a{x="${"}', "no variable"),
        ("a > ${1x}", "no variable"),
        ("a{x=`${npu}`}", "backticks"),
        ("a > 1 # it's \"${npu}", "comment"),
    ],
)
def test_a_bad_place_is_refused_at_load(text: str, message: str) -> None:
    with pytest.raises(VariableError, match=message):
        Template(text)


def test_an_escaped_quote_does_not_end_the_text() -> None:
    assert only_matcher(Template(r'a{x="\"${npu}"}').fill({"npu": '"'}))[1] == '""'


def test_a_dollar_at_the_end_of_a_pattern_is_no_variable() -> None:
    assert Template('a{x=~"b$"}').names == frozenset()


def test_a_missing_value_and_a_long_one_are_refused() -> None:
    template = Template('a{x="${npu}"}')
    assert template.names == {"npu"}
    with pytest.raises(VariableError, match="no label npu"):
        template.fill({})
    with pytest.raises(VariableError, match="1001 characters"):
        template.fill({"npu": "x" * 1001})
    with pytest.raises(VariableError, match="no Unicode"):
        template.fill({"npu": "\ud800"})


def test_a_text_for_people_stays_on_one_line() -> None:
    assert said("card ${npu} is hot", {"npu": "3\r\n\x1b[31m4"}) == "card 3 [31m4 is hot"
    assert names_in("card ${npu} of ${node}") == {"npu", "node"}
    with pytest.raises(VariableError):
        names_in("card ${npu")
