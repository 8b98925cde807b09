"""From text to an `Expression`: promql-parser knows the syntax, and what is not supported here is said by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast, get_args

import promql_parser

from rules.expression.errors import ExpressionError
from rules.expression.expression import Expression
from rules.expression.limits import DEEPEST_TREE, LONGEST_REACH_SECONDS
from rules.expression.nodes import (
    Absent,
    Aggregate,
    AggregateOp,
    ArithmeticOp,
    Binary,
    CompareOp,
    HistogramQuantile,
    Matching,
    Negate,
    Node,
    Number,
    RangeCall,
    RangeFunction,
    Selector,
    SetOp,
    SetOperation,
    Time,
    VectorOf,
    absent_labels,
)
from rules.expression.scan import Scanned, scan
from rules.pattern import Pattern, PatternError
from rules.readings import Matcher, MatchOp

NAME = "__name__"
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_MATCH_OPS: dict[str, MatchOp] = {
    str(promql_parser.MatchOp.Equal): "=",
    str(promql_parser.MatchOp.NotEqual): "!=",
    str(promql_parser.MatchOp.Re): "=~",
    str(promql_parser.MatchOp.NotRe): "!~",
}
_RANGE_FUNCTIONS: tuple[str, ...] = get_args(RangeFunction)
FUNCTIONS = (*_RANGE_FUNCTIONS, "histogram_quantile", "absent", "vector", "time")
"""Every function that is supported."""
AGGREGATIONS: tuple[str, ...] = get_args(AggregateOp)
"""Every aggregation that is supported."""


def parse(text: str) -> Expression:
    """Read an expression; raises `ExpressionError` for bad syntax, what is not supported and what is too big."""
    scanned = scan(text)
    return Expression(text, _Reader(scanned).read(_syntax(scanned), 0))


def _syntax(scanned: Scanned) -> promql_parser.Expr:
    try:
        return promql_parser.parse(scanned.text)
    except Exception as error:
        raise _misread(scanned, _first_line(error)) from error
    except BaseException as error:
        # What goes wrong inside of the parser itself comes as an exception that `Exception` does not catch.
        if type(error).__name__ != "PanicException":
            raise
        raise ExpressionError(f"the parser gave up on it: {_first_line(error)}") from error


def _misread(scanned: Scanned, reason: str) -> ExpressionError:
    """The parser's own words, pointing at what they quote; it has none for text that only ends too early."""
    if reason == "invalid promql query":
        if scanned.tokens and scanned.tokens[-1].kind == "sign" and scanned.tokens[-1].text not in ")]}":
            return ExpressionError("something is missing", scanned.text, len(scanned.text))
        return ExpressionError("something is missing or out of order")
    quoted = re.search(r"'([^']+)'", reason)
    return scanned.error(f"not an expression: {reason}", *(quoted.groups() if quoted else ()))


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__


class _Reader:
    """Takes the parser's tree over, checked."""

    def __init__(self, scanned: Scanned) -> None:
        self._scanned = scanned
        self._kinds: dict[type[Any], Callable[[Any, int], Node]] = {
            promql_parser.NumberLiteral: lambda given, depth: Number(float(given.val)),
            promql_parser.ParenExpr: lambda given, depth: self.read(given.expr, depth),
            promql_parser.UnaryExpr: lambda given, depth: Negate(self.read(given.expr, depth)),
            promql_parser.VectorSelector: lambda given, depth: self._selector(given),
            promql_parser.BinaryExpr: self._binary,
            promql_parser.AggregateExpr: self._aggregate,
            promql_parser.Call: self._call,
        }

    def read(self, given: Any, depth: int) -> Node:
        """The node that this part of the parser's tree is."""
        if depth > DEEPEST_TREE:
            raise ExpressionError(f"more than {DEEPEST_TREE} operators and calls in one another")
        kind = self._kinds.get(type(given))
        if kind is None:
            raise self._unsupported(given)
        return kind(given, depth + 1)

    def _unsupported(self, given: Any) -> ExpressionError:
        if isinstance(given, promql_parser.MatrixSelector):
            return self._scanned.error("a range needs a function over it, as in rate(x[5m])", "[")
        if isinstance(given, promql_parser.SubqueryExpr):
            return self._scanned.error("subqueries are not supported", "[")
        return ExpressionError(f"{type(given).__name__} is not supported")

    def _selector(self, given: promql_parser.VectorSelector) -> Selector:
        if given.at is not None:
            raise self._scanned.error("the @ modifier is not supported", "@")
        if given.matchers.or_matchers:
            raise self._scanned.error("'or' between matchers is not supported", "or")
        read = [Matcher(one.name, _MATCH_OPS[str(one.op)], str(one.value)) for one in given.matchers.matchers]
        named = [one for one in read if one.label == NAME]
        if given.name is None and len(named) == 1 and named[0].op == "=":
            name = named[0].value
        elif given.name is not None and not named:
            name = given.name
        else:
            raise self._scanned.error("a selector needs the name of one metric, in plain text", NAME, "{")
        if not _METRIC.fullmatch(name):
            raise ExpressionError(f"{name!r} is not a metric name")
        matchers = tuple(one for one in read if one.label != NAME)
        for one in matchers:
            self._check_matcher(one)
        offset = (given.offset or timedelta()).total_seconds()
        if offset < 0.0:
            raise self._scanned.error(
                "a negative offset is not supported: it asks for what is to come", "offset"
            )
        self._check_reach(offset, "offset")
        return Selector(name, matchers, offset)

    def _check_matcher(self, matcher: Matcher) -> None:
        self._check_labels((matcher.label,))
        if matcher.op in ("=~", "!~"):
            try:
                Pattern(matcher.value)
            except PatternError as error:
                raise self._scanned.error(
                    f"the pattern for {matcher.label!r}: {error}", matcher.label
                ) from error

    def _check_labels(self, labels: tuple[str, ...]) -> None:
        for label in labels:
            if not _LABEL.fullmatch(label):
                raise ExpressionError(f"{label!r} is not a label name")

    def _check_reach(self, seconds: float, *words: str) -> None:
        if seconds > LONGEST_REACH_SECONDS:
            raise self._scanned.error(f"{seconds:g} s is longer than the day that is kept", *words)

    def _call(self, given: promql_parser.Call, depth: int) -> Node:
        name = given.func.name
        if name not in FUNCTIONS:
            raise self._scanned.error(
                f"the function {name} is not supported; there are {', '.join(FUNCTIONS)}", name
            )
        arguments = list(given.args)
        if name == "time":
            return Time()
        if name == "vector":
            return VectorOf(self.read(arguments[0], depth))
        if name == "absent":
            vector = self.read(arguments[0], depth)
            return Absent(vector, absent_labels(vector))
        if name == "histogram_quantile":
            return HistogramQuantile(self.read(arguments[0], depth), self.read(arguments[1], depth))
        parameter = self.read(arguments[0], depth) if name == "quantile_over_time" else None
        selector, seconds = self._range(arguments[-1], name)
        return RangeCall(cast(RangeFunction, name), selector, seconds, parameter)

    def _range(self, given: Any, function: str) -> tuple[Selector, float]:
        while isinstance(given, promql_parser.ParenExpr):
            given = given.expr
        if not isinstance(given, promql_parser.MatrixSelector):
            raise self._scanned.error("subqueries are not supported", function)
        selector, seconds = self._selector(given.vector_selector), given.range.total_seconds()
        self._check_reach(selector.offset_seconds + seconds, "[")
        return selector, seconds

    def _aggregate(self, given: promql_parser.AggregateExpr, depth: int) -> Node:
        op = str(given.op).lower()
        if op not in AGGREGATIONS:
            raise self._scanned.error(
                f"the aggregation {op} is not supported; there are {', '.join(AGGREGATIONS)}", op
            )
        vector = self.read(given.expr, depth)
        if given.modifier is None:
            return Aggregate(cast(AggregateOp, op), vector)
        labels = tuple(given.modifier.labels)
        self._check_labels(labels)
        without = given.modifier.type == promql_parser.AggModifierType.Without
        return Aggregate(cast(AggregateOp, op), vector, labels, without)

    def _binary(self, given: promql_parser.BinaryExpr, depth: int) -> Node:
        op = str(given.op).lower()
        left, right = self.read(given.lhs, depth), self.read(given.rhs, depth)
        matching = self._matching(given.modifier)
        if op in get_args(SetOp):
            return SetOperation(cast(SetOp, op), left, right, matching)
        if op not in get_args(ArithmeticOp) and op not in get_args(CompareOp):
            raise self._scanned.error(f"the operator {op} is not supported", op)
        as_bool = given.modifier is not None and given.modifier.return_bool
        return Binary(cast(ArithmeticOp | CompareOp, op), left, right, matching, as_bool)

    def _matching(self, given: promql_parser.BinModifier | None) -> Matching:
        if given is None:
            return Matching()
        if given.fill_values.lhs is not None or given.fill_values.rhs is not None:
            raise self._scanned.error("fill is not supported", "fill", "fill_left", "fill_right")
        labels = tuple(given.matching.labels) if given.matching is not None else ()
        on = given.matching is not None and given.matching.type == promql_parser.LabelModifierType.Include
        include = tuple(given.group_labels or ())
        self._check_labels((*labels, *include))
        card = promql_parser.VectorMatchCardinality
        if given.card == card.ManyToOne:
            return Matching(labels, on, "left", include)
        if given.card == card.OneToMany:
            return Matching(labels, on, "right", include)
        return Matching(labels, on)
