"""Exported rules: what Prometheus is given says the same, and promtool takes it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rules.durations import seconds_of
from rules.export import as_values, as_yaml, duration, export
from rules.rule import RuleGroup
from rules.rule_file import load, read, shipped_files
from rules.slo_rules import LIMITS
from tests.prepare import find_program

STRANGE = """\
alert_rules:
  - {name: "on", metric: npu_temperature_celsius, threshold: "> 85", duration: 1.5s, action: thermal_throttling}
  - {name: "high: 0x10 # 'heat'", metric: npu_sm_activity, threshold: 85%, duration: 5min, severity: critical,
     description: "two\\nlines, \\"quoted\\", ä 漢 \\e[2J\\ttab", labels: {team: "22:00", a: "yes", b: "1e3"}}
groups:
  - name: "null"
    interval: 1m30s
    rules:
      - alert: Kept
        expr: |
          sum by (n) (x) > 1
            and on (n) y > 2
        for: 1d
        keep_firing_for: 90s
        annotations: {summary: "{{ $value }} of {{ $labels.n }} | %"}
"""


def checked(text: str, folder: Path) -> str:
    promtool = find_program("promtool")
    assert promtool is not None
    path = folder / "rules.yml"
    path.write_text(text)
    done = subprocess.run(
        [promtool, "check", "rules", str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def compared(groups: tuple[RuleGroup, ...]) -> list[tuple[object, ...]]:
    return [
        (
            group.name,
            group.interval_seconds,
            rule.name,
            rule.expression.text.strip(),
            rule.for_seconds,
            rule.keep_firing_for_seconds,
            {name: text.text for name, text in rule.labels.items()},
            {name: text.text for name, text in rule.annotations.items()},
            rule.playbook,
            rule.description,
        )
        for group in groups
        for rule in group.rules
    ]


def test_exported_rules_read_again_are_the_same() -> None:
    groups = read(STRANGE, "strange.yaml")
    assert compared(read(export(groups), "strange.yaml")) == compared(groups)


def test_playbook_and_description_are_annotations_and_the_severity_a_label() -> None:
    (group, _) = as_values(read(STRANGE, "strange.yaml"))["groups"]
    assert group["rules"][0]["annotations"] == {"playbook": "thermal_throttling"}
    assert group["rules"][0]["labels"]["playbook"] == "thermal_throttling"
    assert "playbook" not in group["rules"][1]["labels"]
    assert group["rules"][1]["labels"]["severity"] == "critical"
    assert group["rules"][1]["annotations"]["description"].startswith("two\nlines")


def test_rules_of_one_trimtab_ask_for_its_series_and_carry_its_label() -> None:
    values = as_values(read(STRANGE, "strange.yaml"), ("trimtab_engine", "north-1:8000"))
    (rule,) = values["groups"][1]["rules"]
    own = '{trimtab_engine="north-1:8000"}'
    assert rule["expr"] == f"sum by (n) (x{own}) > 1\n  and on (n) y{own} > 2\n"
    assert [one["labels"]["trimtab_engine"] for group in values["groups"] for one in group["rules"]] == [
        "north-1:8000"
    ] * 3


@pytest.mark.debian("promtool")
def test_promtool_takes_the_rules_of_one_trimtab(tmp_path: Path) -> None:
    groups = load(shipped_files(), limits=dict.fromkeys(LIMITS, 0.5))
    text = export(groups, ("trimtab_engine", '[fe80::1]:8000 \\"'))
    assert "rules found" in checked(text, tmp_path)
    assert text.startswith("# Only of series with this label")


@pytest.mark.debian("promtool")
def test_promtool_takes_strange_rules(tmp_path: Path) -> None:
    assert "3 rules found" in checked(export(read(STRANGE, "strange.yaml")), tmp_path)


@pytest.mark.debian("promtool")
def test_promtool_takes_every_rule_that_is_shipped(tmp_path: Path) -> None:
    groups = load(shipped_files(), limits=dict.fromkeys(LIMITS, 0.5))
    count = sum(len(group.rules) for group in groups)
    assert count > 0
    assert f"{count} rules found" in checked(export(groups), tmp_path)


@given(st.integers(0, 10**11))
def test_a_duration_is_written_to_the_millisecond(milliseconds: int) -> None:
    assert round(seconds_of(duration(milliseconds / 1000)) * 1000) == milliseconds


@given(st.text(max_size=30))
def test_any_text_is_the_same_for_every_reader_of_yaml(text: str) -> None:
    (group,) = read("groups: [{name: g, rules: [{alert: A, expr: x > 1}]}]", "r.yaml")
    values = as_values((group,))
    values["groups"][0]["rules"][0]["annotations"] = {"summary": text}
    assert yaml.safe_load(as_yaml(values)) == values
