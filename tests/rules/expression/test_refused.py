"""What is not supported, too big or hostile is refused at once, with its place."""

from __future__ import annotations

from time import process_time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rules.expression import EvaluationError, Expression, ExpressionError, parse
from rules.expression.evaluate import evaluate
from rules.expression.limits import Budget
from rules.trace import TraceReadings


@pytest.mark.parametrize(
    ("text", "words", "position"),
    [
        ("1 + topk(3, a)", "topk is not supported", 4),
        ("a + irate(b[5m])", "irate is not supported", 4),
        ("delta(a[5m])", "delta is not supported", 0),
        ("hour() - a", "hour is not supported", 0),
        ('label_replace(a, "b", "c", "d", "e")', "text belongs after", 17),
        ("max_over_time(a[5m:1m])", "subqueries", 18),
        ("rate(a[5m])[1h:]", "subqueries", 14),
        ("a @ 10", "@ modifier", 2),
        ("a offset -5m", "negative offset", 2),
        ("a[5m]", "needs a function", 1),
        ("a + 5m", "write seconds", 4),
        ("rate(a[5])", "needs a unit", 7),
        ('a{"b"="c"}', "text belongs after", 2),
        ('{"a"}', "text belongs after", 1),
        ('sum by ("b") (a)', "text belongs after", 8),
        ('"text"', "text belongs after", 0),
        ('{__name__=~"a|b"}', "name of one metric", 0),
        ('{npu="0"}', "name of one metric", 0),
        ('a{b="c" or d="e"}', "'or' between matchers", 8),
        ("a + fill(0) b", "fill is not supported", 4),
        ("a atan2 b", "atan2 is not supported", 2),
        ("rate(a[2d])", "longer than the day", 6),
        ("rate(a[10y])", "longer than the day", 6),
        ("rate(a[23h] offset 2h)", "longer than the day", 6),
        ("a offset 2w", "longer than the day", 2),
        ("a)", "closes nothing", 1),
        ("sum(a", "is not closed", 3),
        ('a{b="c}', "closing quote", 4),
        ("größe > 1", "out of place", 2),
        ('a{größe="1"}', "out of place", 4),
        ('a{b=~"(?P<x>c)"}', r"\(\?: is known", 2),
        ('a{b=~"c{,3}"}', "no repeat", 2),
        ("a +", "something is missing", 3),
        ("a b c", "out of order", None),
        ("1 + unknown(a)", "unknown function", 4),
        ("1 > 2", "BOOL", None),
        ("1 + rate(a)", "expected type matrix", 4),
        ("", "empty", None),
        ("# only a remark", "no expression", None),
    ],
)
def test_what_is_not_supported_is_named_with_its_place(text: str, words: str, position: int | None) -> None:
    with pytest.raises(ExpressionError, match=words) as refused:
        parse(text)
    assert refused.value.position == position
    if position is not None:
        where = f"at character {position + 1}" if position < len(text) else "at its end"
        assert where in str(refused.value)


HOSTILE = {
    "brackets": "(" * 100_000,
    "closed brackets": "(" * 2000 + "a" + ")" * 2000,
    "five megabytes": "a" * 5_000_000,
    "five megabytes of brackets": "[" * 5_000_000,
    "signs": "-" * 4000 + "a",
    "a chain": "+".join(["a"] * 2000),
    "nested calls": "sum(" * 800 + "a" + ")" * 800,
    "a long chain of few": " or ".join(["a"] * 150),
    "powers": "^".join(["2"] * 150),
    "a big repeat": 'a{b=~"(((x{1000}){1000}){1000}){1000}"}',
    "many states": 'a{b=~"((a|b){40}){40}"}',
    "a long pattern": 'a{b=~"' + "x" * 1000 + '"}',
    "nested groups": 'a{b=~"' + "(" * 100 + "x" + ")" * 100 + '"}',
    "a zero byte": "a\0b",
    "a control character": 'a{b="\x07"}',
    "half a character": 'a{b="\ud800"}',
    "turned text": "a\u202e > 1",
    "an endless range": "rate(a[99999999999999999999y])",
    "a long number": "1" * 4000 + "s",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_text_is_refused_quickly(kind: str) -> None:
    began = process_time()
    with pytest.raises(ExpressionError) as refused:
        parse(HOSTILE[kind])
    assert process_time() - began < 1.0
    assert len(str(refused.value)) < 600, "the message does not repeat the text"


def test_a_pattern_that_other_matchers_choke_on_is_matched_in_a_moment() -> None:
    bomb = TraceReadings.from_input_series([{"series": f'a{{b="{"x" * 2000}!"}}', "values": "1"}], 10.0)
    began = process_time()
    assert parse('a{b=~"(x+x+)+y"}').evaluate(bomb, 0.0) == []
    assert parse('a{b=~"(x*)*(.*)*(x|.)*!"}').evaluate(bomb, 0.0) != []
    assert process_time() - began < 1.0


def test_an_evaluation_that_looks_at_too_much_is_stopped() -> None:
    series = [{"series": f'a{{n="{n}"}}', "values": "1x4000"} for n in range(50)]
    readings = TraceReadings.from_input_series(series, 1.0)
    expression = parse(" + ".join(["sum(max_over_time(a[1h]))"] * 40))
    began = process_time()
    with pytest.raises(EvaluationError, match="2,000,000 readings"):
        expression.evaluate(readings, 3600.0)
    assert process_time() - began < 10.0
    with pytest.raises(EvaluationError, match="elements"):
        evaluate(parse("a or a").root, readings, 0.0, Budget(elements=120))


def test_a_fault_inside_of_the_parser_is_an_error_of_the_expression(monkeypatch: pytest.MonkeyPatch) -> None:
    class PanicException(BaseException):
        """As the parser's binding raises it."""

    def fail(text: str) -> None:
        raise PanicException("index out of bounds")

    monkeypatch.setattr("promql_parser.parse", fail)
    with pytest.raises(ExpressionError, match="gave up"):
        parse("a")


PIECES = st.sampled_from(
    [
        *"()[]{}+-*/%^<>=!~,:\"'`\\#@ \n",
        "a",
        "sum",
        "by",
        "rate",
        "5m",
        "1",
        "offset",
        "bool",
        "on",
        "ü",
        "\0",
        "e9",
        "[5m]",
    ]
)


@given(st.lists(PIECES, max_size=60).map("".join) | st.text(max_size=200))
@example("sum by")
@example("a{")
def test_any_text_is_an_expression_or_refused(text: str) -> None:
    try:
        found = parse(text)
    except ExpressionError:
        return
    assert isinstance(found, Expression)
    assert parse(found.text) == found
