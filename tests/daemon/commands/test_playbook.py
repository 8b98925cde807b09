"""`trimtab playbook`: what there is, and walks with and without a daemon."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from daemon.acting import dry_walk
from tests.daemon.acting.test_whole import PLAYBOOKS
from tests.daemon.engine_stand import EngineStand
from tests.daemon.trimtab_command import Trimtab, one_line


@pytest.fixture
def walking(config: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A configuration with one playbook, and sources that are looked at in quick succession."""
    (tmp_path / "playbooks.yaml").write_text(PLAYBOOKS)
    values = yaml.safe_load(Path(config).read_text())
    values["playbooks"] = {"shipped": False, "files": [str(tmp_path / "playbooks.yaml")]}
    values["rules"] = {"shipped": False}
    values["collect"] = {"npu_smi": {"enabled": False}, "host": {"enabled": False}}
    Path(config).write_text(yaml.safe_dump(values))
    monkeypatch.setattr(dry_walk, "READ_SECONDS", 0.2)
    return config


def test_the_list_and_one_of_it(trimtab: Trimtab, walking: str) -> None:
    told = trimtab("playbook", "list", "--json", "-c", walking)
    assert told.code == 0
    assert [(one["name"], one["changes"], one["disabled"]) for one in told.json] == [("relieve", True, False)]
    assert "Fewer at once" in trimtab("playbook", "list", "-c", walking).out
    told = trimtab("playbook", "show", "relieve", "--json", "-c", walking)
    assert [step["name"] for step in told.json["steps"]] == ["busy", "cause", "half", "stands"]
    assert "max_num_seqs: x0.5" in trimtab("playbook", "show", "relieve", "-c", walking).out


@pytest.mark.parametrize("words", [["show", "none"], ["run", "none", "--dry-run"]])
def test_one_that_there_is_not_is_a_usage_error(trimtab: Trimtab, walking: str, words: list[str]) -> None:
    told = trimtab("playbook", *words, "-c", walking)
    assert told.code == 2
    one_line(told)
    assert "known are relieve" in told.err


def test_without_a_daemon_a_dry_run_walks_on_fresh_readings_and_changes_nothing(
    trimtab: Trimtab, walking: str, engine: EngineStand
) -> None:
    told = trimtab("playbook", "run", "relieve", "--dry-run", "--json", "-c", walking)
    assert told.code == 0, told.err
    assert told.json["state"] == "skipped"
    assert "would have set max_num_seqs" in told.json["reason"]
    assert engine.changes == []
    assert "busy: check:" in told.err
    again = trimtab("playbook", "run", "relieve", "--dry-run", "-c", walking)
    assert again.code == 1
    assert "cool-down" in again.out


def test_what_cannot_be_read_is_said_to_be_unknown(
    trimtab: Trimtab, walking: str, engine: EngineStand
) -> None:
    engine.metrics_fault = "garbage"
    told = trimtab("playbook", "run", "relieve", "--dry-run", "-c", walking)
    assert "cannot be known: no readings" in told.err
    assert "inconclusive" in told.out


def test_without_a_daemon_nothing_is_walked_in_earnest(trimtab: Trimtab, walking: str) -> None:
    told = trimtab("playbook", "run", "relieve", "-c", walking)
    assert told.code == 1
    one_line(told)
    assert "--dry-run" in told.err


def test_a_label_without_a_value_is_a_usage_error(trimtab: Trimtab, walking: str) -> None:
    told = trimtab("playbook", "run", "relieve", "--dry-run", "--label", "npu", "-c", walking)
    assert told.code == 2
    one_line(told)


def test_a_playbook_file_that_makes_no_sense_is_named_with_its_line(
    trimtab: Trimtab, walking: str, tmp_path: Path
) -> None:
    (tmp_path / "playbooks.yaml").write_text("playbooks:\n  - name: x\n    titel: y\n")
    told = trimtab("playbook", "list", "-c", walking)
    assert told.code == 2
    assert "playbooks.yaml:" in told.err
