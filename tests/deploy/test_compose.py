"""The compose file of the sidecar shape: what it must never do, and whether its parts fit each other."""

from __future__ import annotations

import ast
import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from daemon.config_file import load
from daemon.middleware import MIDDLEWARE
from tests.prepare import ROOT

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())
CONFIG: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "trimtab.yaml").read_text())


def dangers(service: dict[str, Any]) -> list[str]:
    """What would let a service open an NPU or take more of the host than a sidecar may."""
    found = [
        key for key in ("privileged", "devices", "cap_add", "device_cgroup_rules", "gpus") if service.get(key)
    ]
    found += [f"{key}: host" for key in ("pid", "ipc", "network_mode") if service.get(key) == "host"]
    for volume in service.get("volumes", []):
        source = volume["source"] if isinstance(volume, dict) else str(volume).partition(":")[0]
        if Path(source).is_relative_to("/"):
            found.append(f"mounts {source} of the host")
    if service.get("runtime") not in (None, "runc"):
        found.append("runs in another runtime, which may add devices by itself")
    environment = service.get("environment") or {}
    names = (
        environment if isinstance(environment, dict) else [entry.partition("=")[0] for entry in environment]
    )
    found += [f"{name} asks the Ascend runtime for devices" for name in names if name.startswith("ASCEND_")]
    return found


@pytest.mark.parametrize("name", ["trimtab", "plugin"])
def test_the_sidecar_opens_no_device_of_the_host(name: str) -> None:
    assert dangers(COMPOSE["services"][name]) == []


@pytest.mark.parametrize(
    "added",
    [
        {"devices": ["/dev/davinci0"]},
        {"devices": ["/dev/davinci_manager:/dev/davinci_manager"]},
        {"privileged": True},
        {"volumes": ["/dev/davinci0:/dev/davinci0"]},
        {"volumes": [{"type": "bind", "source": "/dev", "target": "/dev"}]},
        {"cap_add": ["SYS_ADMIN"]},
        {"pid": "host"},
        {"runtime": "ascend"},
        {"environment": {"ASCEND_VISIBLE_DEVICES": "0"}},
        {"environment": ["ASCEND_VISIBLE_DEVICES=0"]},
    ],
)
def test_a_sidecar_that_could_open_one_is_told_apart(added: dict[str, Any]) -> None:
    service = copy.deepcopy(COMPOSE["services"]["trimtab"])
    for key, value in added.items():
        service[key] = [*service.get(key, []), *value] if isinstance(value, list) else value
    assert dangers(service)


def test_the_sidecar_runs_with_nothing_it_does_not_need() -> None:
    service = COMPOSE["services"]["trimtab"]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]


def test_the_engine_owns_the_devices() -> None:
    assert any(device.startswith("/dev/davinci") for device in COMPOSE["services"]["engine"]["devices"])


def test_every_port_is_published_on_loopback_only() -> None:
    ports = [port for service in COMPOSE["services"].values() for port in service.get("ports", [])]
    assert len(ports) == 2
    assert all(str(port).startswith("127.0.0.1:") for port in ports)


def test_engine_and_sidecar_share_one_secret_and_no_token_is_written_down() -> None:
    services = COMPOSE["services"]
    assert list(COMPOSE["secrets"]) == ["trimtab_token"]
    assert services["engine"]["secrets"] == services["trimtab"]["secrets"] == ["trimtab_token"]
    mounted = "/run/secrets/trimtab_token"
    assert services["engine"]["environment"]["TRIMTAB_TOKEN_FILE"] == mounted
    assert CONFIG["engine"]["token_file"] == CONFIG["web"]["token_file"] == mounted


@pytest.mark.parametrize("name", ["token", ".env"])
def test_what_the_steps_write_beside_the_file_is_in_no_commit_and_no_image(name: str) -> None:
    assert f"/deploy/{name}" in (ROOT / ".gitignore").read_text().splitlines()
    assert f"deploy/{name}" in (ROOT / ".dockerignore").read_text().splitlines()


def test_the_engine_starts_through_the_volume_that_holds_the_plugin() -> None:
    services = COMPOSE["services"]
    target = next(v.split(":")[1] for v in services["engine"]["volumes"] if v.startswith("plugin:"))
    assert services["engine"]["command"][0] == f"{target}/with-trimtab"
    assert services["plugin"]["volumes"] == ["plugin:/plugin"]
    assert services["plugin"]["entrypoint"] == ["install-plugin", "/plugin"]
    assert services["engine"]["depends_on"] == {"plugin": {"condition": "service_completed_successfully"}}
    assert "plugin" in COMPOSE["volumes"]


def test_the_images_own_pythonpath_is_kept() -> None:
    # The images of CANN set one; a value in the compose file would replace it and torch_npu would not load.
    assert "PYTHONPATH" not in COMPOSE["services"]["engine"]["environment"]


def test_the_engines_middleware_is_the_plugins() -> None:
    assert f"--middleware={MIDDLEWARE}" in COMPOSE["services"]["engine"]["command"]
    module, _, name = MIDDLEWARE.rpartition(".")
    source = (ROOT / "engine_plugin" / Path(*module.split(".")).with_suffix(".py")).read_text()
    assert name in {node.name for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}


def test_the_configuration_is_valid_changes_nothing_and_leaves_npu_smi_alone() -> None:
    config = load(ROOT / "deploy" / "trimtab.yaml")
    assert config.deployment == "sidecar"
    assert config.mode == "observe"
    assert not config.reads_npu_smi


def test_the_configuration_names_the_services_as_compose_does() -> None:
    assert CONFIG["engine"]["url"] == "http://engine:8000"
    assert "--port=8000" in COMPOSE["services"]["engine"]["command"]
    host = CONFIG["collect"]["npu_exporter"]["url"].split("/")[2].partition(":")[0]
    assert f"{host}:host-gateway" in COMPOSE["services"]["trimtab"]["extra_hosts"]
    mounts = COMPOSE["services"]["trimtab"]["volumes"]
    assert "./trimtab.yaml:/etc/trimtab/config.yaml:ro" in mounts
    assert "state:/var/lib/trimtab" in mounts
