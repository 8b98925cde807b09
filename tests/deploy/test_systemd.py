"""The systemd units: what they start, and as whom."""

from __future__ import annotations

from pathlib import Path

import pytest

from daemon.engine.drop_in import DropIns
from tests.prepare import ROOT

UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
NODE = ROOT / "deploy" / "systemd" / "trimtab.service"
WRAP = ROOT / "deploy" / "systemd" / "trimtab-wrap.service"


def service(unit: Path) -> dict[str, list[str]]:
    """Each key of [Service] with every value given for it."""
    values: dict[str, list[str]] = {}
    section = ""
    for line in unit.read_text().splitlines():
        if line.startswith("["):
            section = line
        elif section == "[Service]" and "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            values.setdefault(key, []).append(value)
    return values


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: str(unit.name))
def test_a_unit_runs_as_a_user_of_its_own_and_keeps_its_state_in_one_folder(unit: Path) -> None:
    keys = service(unit)
    assert keys["User"] == ["trimtab"]
    assert keys["StateDirectory"] == ["trimtab"]
    assert "XDG_STATE_HOME=/var/lib" in keys["Environment"]
    assert keys["NoNewPrivileges"] == ["yes"]


def test_on_a_node_the_token_is_a_credential_and_the_system_is_read_only() -> None:
    keys = service(NODE)
    assert keys["ExecStart"] == ["/opt/trimtab/bin/trimtab run -c /etc/trimtab/config.yaml"]
    assert keys["LoadCredential"] == ["token:/etc/trimtab/token"]
    assert "TRIMTAB_TOKEN_FILE=%d/token" in keys["Environment"]
    assert keys["ProtectSystem"] == ["strict"]


def test_on_a_node_npu_smi_can_still_reach_the_driver() -> None:
    keys = service(NODE)
    assert "PrivateDevices" not in keys
    assert keys["SupplementaryGroups"] == ["HwHiAiUser"]


def test_on_a_node_the_kernel_may_be_asked_for_the_machines_own_addresses() -> None:
    [families] = service(NODE)["RestrictAddressFamilies"]
    assert "AF_NETLINK" in families.split()


def test_a_daemon_that_ended_is_always_started_again_to_take_back_what_it_left() -> None:
    assert service(NODE)["Restart"] == ["always"]
    assert service(NODE)["TimeoutStopSec"] == ["1h"]
    assert service(WRAP)["Restart"] == ["always"]


def test_the_drop_in_for_the_hand_systemd_lets_it_write_where_the_hand_writes() -> None:
    keys = service(NODE.with_name("trimtab.service.d") / "engine-unit.conf")
    assert keys["User"] == ["root"]
    [paths] = keys["ReadWritePaths"]
    writable = [path.removeprefix("-") for path in paths.split()]
    files = DropIns("vllm.service")
    for file in (files.kept_file, files.try_file):
        assert any(file.is_relative_to(path) for path in writable)


def test_a_wrapped_engine_gets_its_signal_from_trimtab_alone() -> None:
    keys = service(WRAP)
    assert "trimtab serve" in keys["ExecStart"][0]
    assert keys["KillMode"] == ["mixed"]
