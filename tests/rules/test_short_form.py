"""The short form of a rule: thresholds as operators write them, in the metric's own unit."""

from __future__ import annotations

import json

import pytest

from rules.rule import Rule, RuleError
from rules.rule_file import read
from rules.short_form import ACTIONS

SHARE = "npu_aicore_usage_ratio"
PERCENT = "npu_sm_activity"
CELSIUS = "npu_temperature_celsius"


def one(**keys: object) -> Rule:
    entry = {"name": "r", "metric": SHARE, "threshold": "85%"} | keys
    (group,) = read(json.dumps({"alert_rules": [entry]}), "r.yaml")
    return group.rules[0]


def mistake(**keys: object) -> str:
    with pytest.raises(RuleError) as caught:
        one(**keys)
    return str(caught.value)


@pytest.mark.parametrize(
    ("metric", "threshold", "condition"),
    [
        (SHARE, "85%", "> 0.85"),
        (SHARE, ">85%", "> 0.85"),
        (SHARE, ">= 85 %", ">= 0.85"),
        (SHARE, "< 40%", "< 0.4"),
        (SHARE, 0.85, "> 0.85"),
        (SHARE, "7%", "> 0.07"),
        (PERCENT, "85%", "> 85"),
        (PERCENT, 85, "> 85"),
        (PERCENT, "0.5%", "> 0.5"),
        (CELSIUS, "> 85", "> 85"),
        (CELSIUS, 85, "> 85"),
        (CELSIUS, "-5.5", "> -5.5"),
        ("npu_hbm_used_bytes", "> 6e10", "> 6e+10"),
        ("npu_health_ok", "== 0", "== 0"),
    ],
)
def test_a_threshold_is_resolved_through_the_metrics_unit(
    metric: str, threshold: object, condition: str
) -> None:
    assert one(metric=metric, threshold=threshold).expression.text == f"{metric} {condition}"


def test_a_metric_of_engines_is_that_of_the_tuned_one() -> None:
    made = one(metric="trimtab_engine_requests_waiting", threshold=">100")
    assert made.expression.text == 'trimtab_engine_requests_waiting{server=""} > 100'


@pytest.mark.parametrize(
    ("duration", "seconds"), [("5min", 300.0), ("5m", 300.0), ("300s", 300.0), ("1h", 3600.0), (90, 90.0)]
)
def test_a_duration_is_written_as_people_do(duration: object, seconds: float) -> None:
    assert one(duration=duration).for_seconds == seconds


def test_an_action_of_the_guides_is_a_playbook_of_ours_and_any_other_is_one_by_name() -> None:
    assert one(action="expand_batch").playbook == ACTIONS["expand_batch"] is not None
    assert one(action="thermal_throttling").playbook == "thermal_throttling"
    assert one(action="notify").playbook is None
    assert one().playbook is None


def test_labels_severity_and_annotations_are_those_of_any_rule() -> None:
    rule = one(severity="info", labels={"team": "a"}, annotations={"summary": "{{ $value }}"})
    assert (rule.severity, rule.labels["team"].text) == ("info", "a")
    assert rule.annotations["summary"].render({}, 0.9) == "0.9"


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"metric": "npu_temperature_celcius"}, "did you mean npu_temperature_celsius?"),
        ({"metric": "zzz"}, "there is no metric 'zzz'; docs/metrics.md lists them"),
        ({"metric": "trimtab_engine_ttft_seconds"}, "is a histogram: write `expr: histogram_quantile(...)`"),
        ({"metric": CELSIUS}, "npu_temperature_celsius is in celsius, of which there are no percent"),
        ({"threshold": 85}, "is a share of 0 to 1, never over 85: did you mean 85%?"),
        ({"threshold": "< 40"}, "is a share of 0 to 1, never over 40: did you mean 40%?"),
        ({"threshold": "!= 40"}, "did you mean 40%?"),
        ({"metric": PERCENT, "threshold": 0.85}, "is in percent of 0 to 100: did you mean 85%?"),
        ({"metric": "trimtab_engine_http_errors_total", "threshold": 5}, "write `expr: rate("),
        ({"metric": CELSIUS, "threshold": "85C"}, "leave 'C' out: npu_temperature_celsius is in celsius"),
        ({"threshold": "a lot"}, "must be as 85%, \"> 85\" or 85, not 'a lot'"),
        ({"threshold": True}, "not 'True'"),
        ({"threshold": [85]}, "not '[85]'"),
        ({"threshold": "1e999"}, "must be a number that ends"),
        ({"threshold": "9" * 5000}, "must be as 85%"),
        ({"threshold": None}, "has no threshold"),
        ({"name": None}, "rule 1 of alert_rules: has no name"),
        ({"duration": "5 parsecs"}, "'5 parsecs' is no duration"),
        ({"severity": "page"}, "severity is info, warning, critical, not 'page'"),
        ({"severity": "info", "labels": {"severity": "info"}}, "stands in the labels too"),
        ({"action": "notify", "playbook": "p"}, "stands beside playbook: leave one of them out"),
        ({"treshold": 1}, "unknown key 'treshold'; did you mean threshold?"),
        ({"for": "5m"}, "unknown key 'for'"),
    ],
)
def test_a_mistake_says_what_is_meant(keys: dict[str, object], words: str) -> None:
    assert words in mistake(**keys)
