"""`trimtab config`, and what a configuration refuses at start."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.daemon.engine_stand import TOKEN, EngineStand
from tests.daemon.trimtab_command import Trimtab, one_line


def test_config_check_prints_what_is_in_effect_and_no_secret(trimtab: Trimtab, config: str) -> None:
    told = trimtab("config", "check", "-c", config)
    assert told.code == 0
    assert yaml.safe_load(told.out)["web"]["port"] == 0
    assert TOKEN not in told.out
    assert trimtab("config", "check", "--json", "-c", config).json["mode"] == "observe"


def test_config_check_names_line_and_nearest_key(trimtab: Trimtab, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("tune:\n  min_efect: 0.1\n")
    told = trimtab("config", "check", "-c", str(path))
    assert told.code == 2
    assert told.err == f"trimtab: {path}:2: tune.min_efect: unknown key; did you mean tune.min_effect?\n"


def test_config_check_refuses_an_open_address_without_a_token(trimtab: Trimtab, tmp_path: Path) -> None:
    path = tmp_path / "open.yaml"
    path.write_text("web: {host: 0.0.0.0}")
    told = trimtab("config", "check", "-c", str(path))
    assert told.code == 2
    assert "web.token_file" in told.err
    assert trimtab("run", "-c", str(path)).code == 2


def test_a_port_that_is_taken_is_said(trimtab: Trimtab, config: str, engine: EngineStand) -> None:
    values = yaml.safe_load(Path(config).read_text())
    values["web"]["port"] = engine.port
    Path(config).write_text(yaml.safe_dump(values))
    told = trimtab("run", "-c", config)
    assert told.code == 2
    one_line(told)
    assert "set web.port" in told.err


def test_the_schema_knows_every_section(trimtab: Trimtab) -> None:
    schema = trimtab("config", "schema").json
    assert {"engine", "slo", "tune", "collect", "web", "store", "mode"} <= set(schema["properties"])
    assert schema["additionalProperties"] is False


def test_the_file_named_in_the_environment_is_used(
    trimtab: Trimtab, config: str, engine: EngineStand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIMTAB_CONFIG", config)
    assert trimtab("config", "check", "--json").json["engine"]["url"] == engine.url


def test_config_check_reads_the_rules_and_playbooks_too(trimtab: Trimtab, tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text("groups: [{name: g, rules: [{alert: A}]}]")
    path = tmp_path / "trimtab.yaml"
    path.write_text(f"rules: {{files: [{rules}]}}\n")
    told = trimtab("config", "check", "-c", str(path))
    assert told.code == 2 and "rules.yaml:1: rule A: has no expr" in told.err
