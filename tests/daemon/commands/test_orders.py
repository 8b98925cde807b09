"""Orders of a person with no daemon: applied, taken back, or refused with nothing changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.daemon.engine_stand import LAUNCH, EngineStand
from tests.daemon.trimtab_command import Trimtab, one_line


def test_apply_rollback_and_history(
    trimtab: Trimtab, config: str, engine: EngineStand, tmp_path: Path
) -> None:
    values = tmp_path / "values.json"
    values.write_text('{"max_num_seqs": 64, "batch_max_tokens": 1024}')
    told = trimtab("apply", str(values), "-c", config, "--json")
    assert told.code == 0
    assert told.json["outcome"] == "done"
    assert engine.values == {"max_num_seqs": 64.0, "batch_max_tokens": 1024.0}
    assert engine.lease is None
    told = trimtab("history", "--json", "-c", config)
    assert [(row["kind"], row["outcome"], row["actor"]) for row in told.json] == [("manual", "done", "cli")]
    told = trimtab("rollback", "-c", config)
    assert told.code == 0
    assert engine.values == LAUNCH
    told = trimtab("rollback", "-c", config)
    assert told.code == 1
    one_line(told)
    assert "manual" in trimtab("history", "-c", config).out


def test_values_the_engine_does_not_hold_are_taken_back_and_code_1(
    trimtab: Trimtab, config: str, engine: EngineStand, tmp_path: Path
) -> None:
    engine.clamp["max_num_seqs", 200.0] = 128.0
    values = tmp_path / "values.yaml"
    values.write_text("max_num_seqs: 200")
    told = trimtab("apply", str(values), "-c", config, "--json")
    assert told.code == 1
    assert told.json["outcome"] == "undone"
    assert engine.values == LAUNCH
    assert "was asked to be 200 and is 128" in told.err


@pytest.mark.parametrize(
    ("text", "code", "what"),
    [
        ("max_num_seqs: 512", 1, "its ceiling"),
        ("max_num_seq: 5", 1, "this engine has no max_num_seq"),
        ("max_num_seqs: many", 2, "values.yaml:1: max_num_seqs: expected a number, not 'many'"),
        ("max_num_seqs: true", 2, "expected a number"),
        ("- 1", 2, "expected knob names and values"),
        ("", 2, "expected knob names and values"),
        ("a: [", 2, "values.yaml:1:"),
    ],
)
def test_values_that_cannot_be_applied_change_nothing(
    trimtab: Trimtab, config: str, engine: EngineStand, tmp_path: Path, text: str, code: int, what: str
) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(text)
    told = trimtab("apply", str(values), "-c", config)
    assert told.code == code
    one_line(told)
    assert what in told.err
    assert engine.changes == []


def test_detach_gives_the_launch_values_back(
    trimtab: Trimtab, config: str, engine: EngineStand, tmp_path: Path
) -> None:
    values = tmp_path / "values.yaml"
    values.write_text("max_num_seqs: 64")
    assert trimtab("apply", str(values), "-c", config).code == 0
    assert trimtab("detach", "-c", config).code == 0
    assert engine.values == LAUNCH


def test_pause_and_resume_without_a_daemon(trimtab: Trimtab, config: str) -> None:
    assert trimtab("pause", "--json", "-c", config).json == {"paused": True, "note": None}
    told = trimtab("tune", "--mode", "act", "-c", config)
    assert told.code == 1
    assert "paused" in told.err
    assert trimtab("resume", "-c", config).out == "not paused\n"
