"""Rules with the operator's limits in them."""

from __future__ import annotations

import pytest

from rules.rule import RuleError
from rules.rule_file import read
from rules.slo_rules import LIMITS, LeftOut, with_limits
from rules.yaml_reading import parse
from tuner.settings import QUANTILES

FILE = """
groups:
  - name: slo
    rules:
      - alert: Slow
        expr: a > ${slo.ttft_p99_seconds}
        annotations: {summary: "over ${slo.ttft_p99_seconds} s"}
      - alert: Failing
        expr: b > 6 * ${slo.error_ratio}
      - alert: Plain
        expr: c > 1
        nonsense: 1
"""


def test_a_limit_stands_where_its_name_stood() -> None:
    filled, left_out = with_limits(parse(FILE), {"ttft_p99_seconds": 0.25, "error_ratio": 1e-05})

    rules = filled.values["groups"][0]["rules"]
    assert [rule["expr"] for rule in rules] == ["a > 0.25", "b > 6 * 1e-05", "c > 1"]
    assert rules[0]["annotations"] == {"summary": "over 0.25 s"}
    assert left_out == ()


@pytest.mark.parametrize("limits", [{}, {"error_ratio": None}])
def test_a_rule_whose_limit_is_not_set_is_left_out_and_said(limits: dict[str, float | None]) -> None:
    filled, left_out = with_limits(parse(FILE), {**limits, "ttft_p99_seconds": 1.0})

    assert [rule["alert"] for rule in filled.values["groups"][0]["rules"]] == ["Slow", "Plain"]
    assert left_out == (LeftOut("Failing", ("error_ratio",)),)
    assert str(left_out[0]) == "Failing is left out: slo.error_ratio is not set"


def test_a_mistake_behind_a_rule_that_is_left_out_is_told_with_its_own_line() -> None:
    with pytest.raises(RuleError, match=r"x\.yaml:12: rule Plain: unknown key 'nonsense'"):
        read(FILE, "x.yaml")


def test_a_name_that_is_no_limit_is_shown_as_it_stands() -> None:
    text = "groups: [{name: g, rules: [{alert: A, expr: 'a > ${slo.ttft_p98_seconds}'}]}]"

    with pytest.raises(RuleError, match="ttft_p98_seconds"):
        read(text, "x.yaml", limits={"ttft_p99_seconds": 1.0})


@pytest.mark.parametrize(
    "text", ["", "groups: 3", "groups: [3]", "groups: [{rules: 3}]", "groups: [{rules: [3]}]"]
)
def test_what_is_no_rule_file_is_left_to_who_reads_it(text: str) -> None:
    document = parse(text)

    filled, left_out = with_limits(document, {})

    assert filled.values == document.values
    assert left_out == ()


def test_a_rule_that_asks_for_more_than_all_is_left_out_and_said() -> None:
    limits = {"error_ratio": 0.17, "ttft_p99_seconds": 1.0}
    filled, left_out = with_limits(parse(FILE), limits)

    assert [rule["alert"] for rule in filled.values["groups"][0]["rules"]] == ["Slow", "Plain"]
    assert [str(one) for one in left_out] == [
        "Failing is left out: 6 times slo.error_ratio (0.17) is more than all requests"
    ]
    assert with_limits(parse(FILE), limits | {"error_ratio": 0.16})[1] == ()


def test_a_rule_that_is_a_bare_text_is_a_mistake_with_its_line() -> None:
    text = "groups:\n  - name: g\n    rules:\n      - a > ${slo.error_ratio}\n"

    with pytest.raises(RuleError, match=r"x\.yaml:4: "):
        read(text, "x.yaml")


def test_the_limits_are_those_of_the_slo() -> None:
    keys = {
        f"{metric}_p{quantile * 100:.0f}_seconds"
        for metric in ("ttft", "itl", "e2e")
        for quantile in QUANTILES
    }

    assert set(LIMITS) == keys | {"error_ratio"}
