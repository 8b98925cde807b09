"""Every shipped rule fires on a trace of what it is for, and on no near miss of it."""

from __future__ import annotations

from collections import defaultdict

import pytest

from collectors.logs.catalogue import known_signatures
from collectors.metrics import METRICS
from rules.replay import replay
from rules.rule import Rule, RuleGroup
from rules.rule_file import load, shipped_files
from rules.slo_rules import LeftOut
from tests.rules.shipped.cases import LIMITS, Case, cases

GROUPS = load(shipped_files(), limits=LIMITS)
RULES = {rule.name: (group, rule) for group in GROUPS for rule in group.rules}
CASES = list(cases())
HISTOGRAM_PARTS = ("_bucket", "_sum", "_count")


def _first_firing(case: Case) -> tuple[float, dict[str, str]] | None:
    group, rule = RULES[case.rule]
    alone = RuleGroup(group.name, group.interval_seconds, (rule,))
    readings = case.readings
    for step in replay([alone], readings, readings.end, max(group.interval_seconds, 15.0)):
        assert step.errors == ()
        for alert in step.firing(rule.name):
            return step.at, dict(alert.labels)
    return None


@pytest.mark.parametrize("case", [case for case in CASES if case.at is not None], ids=str)
def test_fires_when_its_condition_has_held(case: Case) -> None:
    fired = _first_firing(case)

    assert fired is not None, "the alert never fired"
    at, labels = fired
    assert at == case.at
    assert {name: labels.get(name) for name in case.labels} == dict(case.labels)
    assert labels["severity"] == RULES[case.rule][1].severity


@pytest.mark.parametrize("case", [case for case in CASES if case.at is None], ids=str)
def test_stays_silent_on_a_near_miss(case: Case) -> None:
    assert _first_firing(case) is None


def test_every_rule_has_a_trace_of_each_kind() -> None:
    kinds: dict[str, set[bool]] = defaultdict(set)
    for case in CASES:
        kinds[case.rule].add(case.at is not None)

    assert set(kinds) == set(RULES)
    assert [rule for rule, found in kinds.items() if found != {True, False}] == []


@pytest.mark.parametrize("rule", [rule for _, rule in RULES.values()], ids=lambda rule: rule.name)
def test_says_in_plain_words_what_it_is_and_what_walks(rule: Rule) -> None:
    assert rule.description.endswith(".")
    assert len(rule.description.split()) >= 6
    assert rule.playbook
    assert rule.annotations["summary"].text
    assert rule.severity in ("info", "warning", "critical")


@pytest.mark.parametrize("rule", [rule for _, rule in RULES.values()], ids=lambda rule: rule.name)
def test_reads_only_metrics_that_there_are(rule: Rule) -> None:
    for name in rule.expression.names:
        base = next((name.removesuffix(part) for part in HISTOGRAM_PARTS if name.endswith(part)), name)
        assert name in METRICS or METRICS[base].kind == "histogram"


@pytest.mark.parametrize("rule", [rule for _, rule in RULES.values()], ids=lambda rule: rule.name)
def test_takes_a_figure_of_the_tuned_engine_from_no_other(rule: Rule) -> None:
    """What is only watched beside it must not have the tuned one restarted."""
    if rule.playbook == "look_first":
        return
    text = rule.expression.text
    for name in rule.expression.names:
        base = next((name.removesuffix(part) for part in HISTOGRAM_PARTS if name.endswith(part)), name)
        if "server" in METRICS[base if base in METRICS else name].labels:
            assert text.count(name) == text.count(f'{name}{{server=""}}')


def test_every_log_signature_has_one_rule_with_the_playbook_of_the_catalogue() -> None:
    logs = next(group for group in GROUPS if group.name == "logs")
    wrong = []
    for signature in known_signatures():
        labels = f'signature="{signature.id}",severity="{signature.severity}",source="x"'
        series = f"trimtab_log_event_time_seconds{{{labels}}}"
        case = Case("", signature.id, 15.0, {series: "0x1"}, None, {})
        fired = [rule for rule in logs.rules if rule.expression.evaluate(case.readings, 15.0)]
        expected = signature.playbook or "cann_error"
        if [rule.playbook for rule in fired] != [expected]:
            wrong.append((signature.id, [rule.name for rule in fired]))

    assert wrong == []


def test_rules_of_the_slo_are_left_out_and_named_where_it_is_not_set() -> None:
    without: list[LeftOut] = []

    groups = load(shipped_files(), left_out=without.append)

    assert "slo" not in {group.name for group in groups}
    assert {one.rule for one in without} == {
        rule.name for group in GROUPS if group.name == "slo" for rule in group.rules
    }
    assert "TtftSloBurnsFast is left out: slo.ttft_p99_seconds is not set" in map(str, without)
