"""Over recorded traces our alerts fire and resolve exactly when `promtool test rules` says, step by step."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from rules.durations import seconds_of
from rules.export import export
from rules.replay import Step, replay
from rules.rule import RuleGroup
from rules.rule_file import read
from rules.trace import TraceReadings
from tests.prepare import find_program
from tests.rules.traces.made import trace

TRACES = Path(__file__).parent / "traces"
SEEDS = range(24)


def every_trace() -> dict[str, dict[str, Any]]:
    """The traces that were written down, and those drawn from seeds."""
    written = {path.stem: yaml.safe_load(path.read_text()) for path in sorted(TRACES.glob("*.yaml"))}
    return written | {f"seed_{seed}": trace(seed) for seed in SEEDS}


def rules_of(given: dict[str, Any]) -> tuple[RuleGroup, ...]:
    return read(json.dumps({"groups": [{"name": "g", "rules": given["rules"]}]}), "trace")


@cache
def walked(name: str) -> tuple[dict[str, Any], tuple[RuleGroup, ...], list[Step]]:
    """A trace, its rules, and what our evaluator makes of them."""
    given = every_trace()[name]
    groups = rules_of(given)
    readings = TraceReadings.from_input_series(given["input_series"], seconds_of(given["interval"]))
    interval = seconds_of(given.get("evaluation_interval", given["interval"]))
    steps = list(replay(groups, readings, seconds_of(given["until"]), interval))
    assert not [step.errors for step in steps if step.errors]
    return given, groups, steps


def write_test(folder: Path, given: dict[str, Any], groups: tuple[RuleGroup, ...], steps: list[Step]) -> Path:
    """Write what we found as what promtool must find: every alert that fires, at every step."""
    folder.mkdir()
    (folder / "rules.yml").write_text(export(groups))
    expected = [
        {
            "eval_time": f"{round(step.at * 1000)}ms",
            "alertname": rule.name,
            "exp_alerts": [
                {
                    "exp_labels": {name: value for name, value in alert.labels if name != "alertname"},
                    "exp_annotations": dict(alert.annotations),
                }
                for alert in step.firing(rule.name)
            ],
        }
        for step in steps
        for group in groups
        for rule in group.rules
    ]
    test = {
        "interval": given["interval"],
        "input_series": given["input_series"],
        "alert_rule_test": expected,
    }
    written = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": given.get("evaluation_interval", given["interval"]),
        "tests": [test],
    }
    path = folder / "test.yml"
    path.write_text(json.dumps(written))
    return path


def failures(path: Path) -> str:
    """What promtool complains of; empty if it agrees."""
    promtool = find_program("promtool")
    assert promtool is not None
    done = subprocess.run([promtool, "test", "rules", str(path)], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


@pytest.mark.debian("promtool")
def test_alerts_fire_and_resolve_when_promtool_says(tmp_path: Path, say: Callable[[str], None]) -> None:
    traces, wrong, changes = every_trace(), {}, 0
    for name in traces:
        given, groups, steps = walked(name)
        changes += sum(alert.state != "pending" for step in steps for alert in step.changes)
        if said := failures(write_test(tmp_path / name, given, groups, steps)):
            wrong[name] = said[:3000]
    right = f"{len(traces) - len(wrong)} of {len(traces)} traces"
    say(f"{right} as promtool has them, {changes} times of firing and resolving")
    assert not wrong, "\n".join(f"{name}: {said}" for name, said in wrong.items())
    assert len(traces) >= 30


@pytest.mark.debian("promtool")
def test_promtool_would_notice_an_alert_that_comes_one_step_late(tmp_path: Path) -> None:
    given, groups, steps = walked("flapping")
    late = [Step(now.at, before.changes, before.alerts, ()) for before, now in pairwise(steps)]
    assert "FAILED" in failures(write_test(tmp_path / "late", given, groups, late))


def test_every_trace_makes_alerts_fire_and_resolve() -> None:
    for name in every_trace():
        states = {alert.state for step in walked(name)[2] for alert in step.changes}
        assert "firing" in states, name
        assert "resolved" in states or name in ("absent", "value_texts"), name
