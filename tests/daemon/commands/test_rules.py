"""`trimtab rules`: what is shown, told to programs, and the exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from daemon.alerting.addressee import engine_name
from daemon.cli import run
from daemon.config import Config
from tests.daemon.trimtab_command import Trimtab

RULES = """\
alert_rules:
  - {name: hot, metric: npu_temperature_celsius, threshold: "> 85", duration: 30s, severity: critical}
"""
TEST = """\
rule_files: [rules.yaml]
evaluation_interval: 15s
tests:
  - interval: 15s
    input_series: [{series: 'npu_temperature_celsius{npu="\\x1b[2J"}', values: '90x4 80x4'}]
    alert_rule_test: [{eval_time: 15s, alertname: hot}]
"""


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """A rule file with one rule."""
    path = tmp_path / "rules.yaml"
    path.write_text(RULES)
    return path


def test_the_rules_that_are_shipped_are_good(trimtab: Trimtab) -> None:
    told = trimtab("rules", "check", "--json")
    assert told.code == 0, told.err
    found = json.loads(told.out)
    assert found["mistakes"] == []
    assert all(rule["playbook"] and rule["description"] for rule in found["rules"])


def test_check_lists_the_rules_of_a_file(trimtab: Trimtab, rules: Path) -> None:
    told = trimtab("rules", "check", str(rules))
    assert told.code == 0
    assert "hot" in told.out and "npu_temperature_celsius > 85" in told.out and "critical" in told.out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("alert_rules: [{name: a}]", "rules.yaml:1: rule a: has no metric"),
        (
            "groups: [{name: g, rules: [{alert: A, expr: npu_temperature > 1}]}]",
            "rules.yaml:1: rule A: there is no metric npu_temperature; did you mean npu_temperature_celsius?",
        ),
        (
            "groups: [{name: g, rules: [{alert: A, expr: trimtab_engine_ttft_seconds > 1}]}]",
            "trimtab_engine_ttft_seconds is a histogram: ask for trimtab_engine_ttft_seconds_bucket",
        ),
        (
            "groups: [{name: g, rules: [{alert: A, expr: 'increase(trimtab_switches_total[1h]) > 9'}]}]",
            "rules.yaml:1: rule A: no past is kept of trimtab_switches_total",
        ),
        (
            "groups: [{name: g, rules: [{alert: A, expr: npu_power_watts > 1, playbook: slow_cart}]}]",
            "rules.yaml:1: rule A: there is no playbook slow_cart; did you mean slow_card?",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_line_and_code_1(
    trimtab: Trimtab, rules: Path, text: str, words: str
) -> None:
    rules.write_text(text)
    told = trimtab("rules", "check", str(rules))
    assert told.code == 1 and words in told.err
    assert words in json.loads(trimtab("rules", "check", str(rules), "--json").out)["mistakes"][0]


def test_a_file_that_is_not_there_is_a_usage_error(trimtab: Trimtab, tmp_path: Path) -> None:
    for command in ("check", "export", "test"):
        told = trimtab("rules", command, str(tmp_path / "none.yaml"))
        assert (told.code, told.out) == (2, "")
        assert "none.yaml: no such file" in told.err


def test_the_configuration_says_which_rules_there_are(trimtab: Trimtab, rules: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(json.dumps({"rules": {"shipped": False, "files": [str(rules)]}}))
    (rule,) = json.loads(trimtab("rules", "check", "-c", str(config), "--json").out)["rules"]
    assert (rule["name"], rule["group"], rule["for_seconds"]) == ("hot", "rules", 30.0)
    config.write_text(json.dumps({"rules": {"shipped": False, "files": [str(rules)], "disabled": ["hott"]}}))
    told = trimtab("rules", "check", "-c", str(config))
    assert told.code == 1 and "rules.disabled: there is no rule 'hott'; did you mean hot?" in told.err


def test_export_prints_what_prometheus_reads(trimtab: Trimtab, rules: Path) -> None:
    told = trimtab("rules", "export", str(rules))
    assert told.code == 0
    assert yaml.safe_load(told.out) == json.loads(trimtab("rules", "export", str(rules), "--json").out)
    (rule,) = yaml.safe_load(told.out)["groups"][0]["rules"]
    engine = engine_name(Config())
    assert (rule["for"], rule["labels"]["trimtab_engine"]) == ("30s", engine)
    assert f'trimtab_engine="{engine}"' in rule["expr"]
    rules.write_text("alert_rules: 3")
    assert trimtab("rules", "export", str(rules)).code == 1


def test_test_replays_and_says_what_differs(trimtab: Trimtab, rules: Path) -> None:
    path = rules.parent / "test.yaml"
    path.write_text(TEST)
    told = trimtab("rules", "test", str(path))
    assert told.code == 0, told.err
    assert "1 traces, 1 expectations: as expected" in told.out
    # What a label holds is shown and not obeyed.
    assert "\x1b" not in told.out and "npu=\\x1b[2J" in told.out
    path.write_text(TEST.replace("eval_time: 15s", "eval_time: 30s"))
    told = trimtab("rules", "test", str(path))
    assert told.code == 1 and "fires and must not" in told.err
    found = json.loads(trimtab("rules", "test", str(path), "--json").out)
    assert [(one["at"], one["state"]) for one in found[0]["passages"]] == [
        (30.0, "firing"),
        (75.0, "resolved"),
    ]
    assert found[0]["differences"][0]["rule"] == "hot"


def test_no_file_to_test_is_a_usage_error() -> None:
    assert run(["rules", "test"]) == 2
