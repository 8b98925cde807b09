"""Test files of promtool, judged by our own evaluator."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from rules.export import export
from rules.replay import replay
from rules.rule import RuleError, RuleGroup
from rules.rule_file import load
from rules.rule_tests import Judged, judge, read_tests
from rules.trace import TraceReadings
from tests.prepare import find_program
from tests.rules.script import rules

RULES = """\
alert_rules:
  - {name: hot, metric: npu_temperature_celsius, threshold: 85, duration: 30s}
"""
TEST = """\
rule_files: [rules.yaml]
evaluation_interval: 15s
tests:
  - name: one card gets hot
    interval: 15s
    input_series:
      - {series: 'npu_temperature_celsius{npu="0"}', values: '80 90x3 80x5'}
      - {series: 'npu_temperature_celsius{npu="1"}', values: '80x10'}
    alert_rule_test:
      - {eval_time: 30s, alertname: hot}
      - {eval_time: 50s, alertname: hot, exp_alerts: [{exp_labels: {npu: "0", severity: warning}}]}
      - {eval_time: 75s, alertname: hot, exp_alerts: []}
"""


def judged(folder: Path, test: str = TEST) -> Judged:
    (folder / "rules.yaml").write_text(RULES)
    (folder / "test.yaml").write_text(test)
    return judge(read_tests(folder / "test.yaml"), lambda files: load(files))


def mistakes(folder: Path, test: str) -> str:
    with pytest.raises(RuleError) as caught:
        judged(folder, test)
    return str(caught.value)


def test_what_is_expected_passes_and_the_times_are_told(tmp_path: Path) -> None:
    found = judged(tmp_path)
    assert (found.traces, found.expectations, found.differences) == (1, 3, ())
    assert [(one.at, one.state, dict(one.labels)["npu"]) for one in found.passages] == [
        (45.0, "firing", "0"),
        (75.0, "resolved", "0"),
    ]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("30s, alertname: hot}", "45s, alertname: hot}", "{npu='0', severity='warning'} fires and must not"),
        ("50s, alertname", "44s, alertname", "{npu='0', severity='warning'} must fire and does not"),
        ('npu: "0"', 'npu: "1"', "{npu='1', severity='warning'} must fire and does not; {npu='0'"),
        (
            "severity: warning}",
            "severity: warning}, exp_annotations: {a: b}",
            "with a='b' must fire and does not",
        ),
        ("30s, alertname: hot}", "30s, alertname: heat}", "there is no rule heat"),
    ],
)
def test_a_difference_is_said_with_what_is_missing_or_too_much(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    (difference,) = judged(tmp_path, TEST.replace(old, new, 1)).differences
    assert words in difference.text
    assert difference.trace == "one card gets hot"


def test_a_rule_that_cannot_be_evaluated_differs(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(
        "groups: [{name: g, rules: [{alert: hot, expr: 'npu_temperature_celsius > 1', labels: {npu: all}}]}]"
    )
    found = judged(tmp_path, TEST.replace("rules.yaml", "bad.yaml"))
    assert any("cannot be evaluated: two series are the same alert" in one.text for one in found.differences)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("tests:", "test:", "test.yaml:3: test file: unknown key 'test'; did you mean tests?"),
        (
            "eval_time: 30s",
            "eval_time: soon",
            "test.yaml:10: one card gets hot, alert 1: eval_time: 'soon' is no",
        ),
        ("80 90x3", "80 hot", "values of npu_temperature_celsius"),
        ("alert_rule_test:", "promql_expr_test: [1]\n    alert_rule_test:", "only alerts are tested here"),
        ("evaluation_interval: 15s", "evaluation_interval: 1ms", "evaluations, over 100000"),
        ("rule_files: [rules.yaml]", "rule_files: [gone.yaml]", "gone.yaml: no such file"),
        ("tests:", "tests: [", "test.yaml:"),
    ],
)
def test_a_mistake_is_said_with_its_place(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert words in mistakes(tmp_path, TEST.replace(old, new, 1))


@pytest.mark.debian("promtool")
def test_promtool_says_the_same_of_the_same_file(tmp_path: Path) -> None:
    assert judged(tmp_path).differences == ()
    (tmp_path / "rules.yaml").write_text(export(load([tmp_path / "rules.yaml"])))
    (tmp_path / "test.yaml").write_text(TEST.replace("80 90x3 80x5", "80 90+0x3 80+0x5"))
    promtool = find_program("promtool")
    assert promtool is not None
    done = subprocess.run(
        [promtool, "test", "rules", str(tmp_path / "test.yaml")], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_a_test_without_rule_files_is_about_the_rules_it_is_given(tmp_path: Path) -> None:
    asked: list[Sequence[Path]] = []

    def given(files: Sequence[Path]) -> tuple[RuleGroup, ...]:
        asked.append(files)
        return rules(name="hot", expr='"npu_temperature_celsius > 85"')

    (tmp_path / "test.yaml").write_text(TEST.replace("rule_files: [rules.yaml]\n", ""))
    assert judge(read_tests(tmp_path / "test.yaml"), given).differences
    assert asked == [()]


def test_a_replay_takes_every_step_and_not_without_end() -> None:
    readings = TraceReadings.from_input_series([{"series": "x", "values": "0 1 1 0"}], 15.0)
    steps = list(replay(rules(), readings, 45.0, 15.0))
    assert [(step.at, len(step.firing("R"))) for step in steps] == [(0.0, 0), (15.0, 1), (30.0, 1), (45.0, 0)]
    with pytest.raises(ValueError, match="1000001 evaluations, over 100000"):
        next(replay(rules(), readings, 1e6, 1.0))
    with pytest.raises(ValueError, match="over 0 s, not 0 s"):
        next(replay(rules(), readings, 1.0, 0.0))
