"""Every selector asks for the one label more, and nothing else of the expression changes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.expression import parse
from rules.expression.narrowed import narrowed
from rules.expression.nodes import Selector
from rules.readings import Matcher
from rules.rule_file import load, shipped_files
from rules.slo_rules import LIMITS
from tests.rules.expression.random_expressions import Draw


def selectors(text: str) -> list[Selector]:
    """In the order in which they are written."""
    found: list[Selector] = []

    def walk(node: object) -> None:
        if isinstance(node, Selector):
            found.append(node)
        elif hasattr(node, "__dataclass_fields__"):
            for name in node.__dataclass_fields__:
                walk(getattr(node, name))

    walk(parse(text).root)
    return found


def more(selector: Selector, value: str = "e") -> Selector:
    return replace(selector, matchers=(Matcher("who", "=", value), *selector.matchers))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x > 1", 'x{who="e"} > 1'),
        ("x{} > 1", 'x{who="e"} > 1'),
        ('rate(x{a="x", b!="}"}[5m])', 'rate(x{who="e",a="x", b!="}"}[5m])'),
        (
            'sum by (x, n) (rate(x{a=~"y|z"}[5m] offset 1h))',
            'sum by (x, n) (rate(x{who="e",a=~"y|z"}[5m] offset 1h))',
        ),
        ("x / on (x) group_left (y) y", 'x{who="e"} / on (x) group_left (y) y{who="e"}'),
        ('{__name__="x"} > 1', '{who="e",__name__="x"} > 1'),
        ("sum(x) by (x)", 'sum(x{who="e"}) by (x)'),
        ("time() - x > vector(1)", 'time() - x{who="e"} > vector(1)'),
        ("absent(x)", 'absent(x{who="e"})'),
        ("x # x\n > 1", 'x{who="e"} # x\n > 1'),
    ],
)
def test_the_label_is_in_every_selector(text: str, expected: str) -> None:
    assert narrowed(parse(text), "who", "e") == expected


@pytest.mark.parametrize("value", ['"', "\\", "a\\nb", "漢 {}", "[::1]:8000"])
def test_any_value_is_the_same_for_who_reads_it(value: str) -> None:
    (selector,) = selectors(narrowed(parse("x > 1"), "who", value))
    assert selector == more(Selector("x", ()), value)


def test_of_every_rule_that_is_shipped() -> None:
    rules = [
        rule for group in load(shipped_files(), limits=dict.fromkeys(LIMITS, 0.5)) for rule in group.rules
    ]
    for rule in rules:
        text = rule.expression.text
        assert selectors(narrowed(rule.expression, "who", "e")) == [more(one) for one in selectors(text)], (
            text
        )


@given(st.integers(0, 10**6))
def test_of_whatever_expression(seed: int) -> None:
    draw = Draw(seed)
    draw.trace()
    text = draw.vector(3)
    assert selectors(narrowed(parse(text), "who", "e")) == [more(one) for one in selectors(text)]
