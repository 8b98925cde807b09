"""`trimtab config`, and what a configuration refuses at start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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


NOWHERE = "/nowhere/secret"
URL = "https://127.0.0.1:1"
HOOKS = {"look": ["true"], "start": ["true"], "stop": ["true"]}


def canary(token: str, **more: Any) -> dict[str, Any]:
    hook = {"hand": "hook", "hook": HOOKS}
    return {"tune": {"canary": {"url": URL, "token_file": token, "server": hook} | more}}


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"engine": {"api_key_file": NOWHERE}}, "engine.api_key_file"),
    ({"engine": {"token_file": NOWHERE}}, "engine.token_file"),
    ({"engine": {"url": URL, "tls": {"ca_file": NOWHERE}}}, NOWHERE),
    (
        {"engine": {"server": {"hand": "kubernetes", "kubernetes": {"name": "e", "kubeconfig": NOWHERE}}}},
        "engine.server.kubernetes",
    ),
    ({"collect": {"engines": [{"name": "d", "url": URL, "api_key_file": NOWHERE}]}}, "collect.engines (d)"),
    ({"collect": {"engines": [{"name": "d", "url": URL, "tls": {"ca_file": NOWHERE}}]}}, NOWHERE),
    ({"alertmanagers": [{"url": URL, "bearer_file": NOWHERE}]}, "bearer_file"),
    ({"alertmanagers": [{"url": URL, "username": "u", "password_file": NOWHERE}]}, "password_file"),
    ({"alertmanagers": [{"url": URL, "tls": {"ca_file": NOWHERE}}]}, "tls.ca_file"),
    ({"rules": {"webhooks": [{"name": "robot", "url_file": NOWHERE}]}}, "rules.webhooks (robot): url_file"),
    (canary(NOWHERE), "tune.canary, read as an engine: engine.token_file"),
    (canary("TOKEN", api_key_file=NOWHERE), "tune.canary, read as an engine: engine.api_key_file"),
    (canary("TOKEN", tls={"ca_file": NOWHERE}), "tune.canary, read as an engine"),
]


@pytest.mark.parametrize(("values", "named"), MISTAKES, ids=[named for _, named in MISTAKES])
def test_config_check_refuses_what_stops_the_daemon(
    values: dict[str, Any], named: str, trimtab: Trimtab, tmp_path: Path
) -> None:
    token, path = tmp_path / "token", tmp_path / "trimtab.yaml"
    token.write_text(TOKEN)
    path.write_text(yaml.safe_dump(values).replace("TOKEN", str(token)))
    told = trimtab("config", "check", "-c", str(path))
    assert told.code == 2
    assert named in told.err and NOWHERE in told.err


def test_serve_starts_no_engine_with_what_stops_the_daemon(trimtab: Trimtab, tmp_path: Path) -> None:
    path = tmp_path / "trimtab.yaml"
    path.write_text(yaml.safe_dump({"rules": {"webhooks": [{"name": "robot", "url_file": NOWHERE}]}}))
    told = trimtab("serve", "-c", str(path), "--", "touch", str(tmp_path / "started"))
    assert told.code == 2 and "rules.webhooks (robot): url_file" in told.err
    assert not (tmp_path / "started").exists()
