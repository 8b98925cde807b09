"""A real Prometheus takes the shipped rules, and those of one replica are about it alone."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from rules.export import export
from rules.replay import replay
from rules.rule_file import load, read, shipped_files
from rules.trace import TraceReadings
from tests.prepare import find_program
from tests.rules.shipped.cases import LIMITS


@pytest.mark.debian("promtool")
def test_promtool_accepts_the_exported_rules(tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(export(load(shipped_files(), limits=LIMITS)), encoding="utf-8")
    program = find_program("promtool")
    assert program is not None

    done = subprocess.run([program, "check", "rules", str(file)], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout


FIRST, SECOND = "north-1:8000", "north-2:8000"


def firing(engine: str, waiting: tuple[float, float]) -> set[tuple[str, str]]:
    """Names and engines of what fires by the rules of one of two replicas over what one Prometheus has of both.

    The first is down while the second is being restarted.
    """
    groups = read(export(load(shipped_files(), limits=LIMITS), ("trimtab_engine", engine)), "exported.yaml")
    values = {
        "trimtab_engine_requests_waiting": waiting,
        "trimtab_collector_success": (0.0, 1.0),
        "trimtab_restart_active": (0.0, 1.0),
    }
    series = [
        {"series": f'{name}{{trimtab_engine="{one}",collector="vllm"}}', "values": f"1 {value}x40"}
        for name, both in values.items()
        for one, value in zip((FIRST, SECOND), both, strict=True)
    ]
    last = list(replay(groups, TraceReadings.from_input_series(series, 15.0), 300.0, 15.0))[-1]
    assert not last.errors
    return {
        (rule.name, dict(alert.labels)["trimtab_engine"])
        for group in groups
        for rule in group.rules
        for alert in last.firing(rule.name)
    }


def test_the_rules_of_one_replica_hear_nothing_of_another() -> None:
    found = firing(FIRST, (60.0, 60.0))
    assert ("EngineDown", FIRST) in found, "though the other is being restarted"
    assert "QueueOver100" not in {name for name, _ in found}, "60 wait at each"
    assert ("QueueOver100", SECOND) in firing(SECOND, (60.0, 101.0))
