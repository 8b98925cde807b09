"""The systemd units: what they start, and as whom."""

from __future__ import annotations

from pathlib import Path

import pytest

from daemon.config_file import load
from daemon.engine.drop_in import DropIns
from daemon.host_lane import NODE_LOCKS
from tests.prepare import ROOT

UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
NODE = ROOT / "deploy" / "systemd" / "trimtab.service"
DROP_INS = NODE.with_name("trimtab.service.d")
WRAP = ROOT / "deploy" / "systemd" / "trimtab-wrap.service"
CONFIG = ROOT / "deploy" / "systemd" / "trimtab.yaml"
INSTALLED = "/etc/trimtab/config.yaml"


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


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: str(unit.name))
def test_a_unit_reads_the_file_that_a_command_at_a_shell_finds(unit: Path) -> None:
    assert f"-c {INSTALLED}" in service(unit)["ExecStart"][0]


def test_a_command_of_any_user_finds_the_daemons_folder_and_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/root/.local/state")
    config = load(CONFIG)
    assert config.run_dir == Path("/var/lib/trimtab/run")
    assert config.store_url == "sqlite:////var/lib/trimtab/trimtab.db"
    assert (config.deployment, config.mode) == ("node", "observe")


def test_on_a_node_the_system_is_read_only() -> None:
    keys = service(NODE)
    assert keys["ExecStart"] == [f"/opt/trimtab/bin/trimtab run -c {INSTALLED}"]
    assert keys["ProtectSystem"] == ["strict"]


def test_a_unit_asks_for_nothing_that_an_old_systemd_does_not_know() -> None:
    keys = service(NODE)
    assert "LoadCredential" not in keys  # systemd 247
    assert not any("%" in value for values in keys.values() for value in values)  # %d: systemd 251


def test_the_steps_for_a_node_make_every_file_that_the_daemon_reads() -> None:
    page = (ROOT / "docs" / "deploying.md").read_text()
    steps = page.partition("## Node, step by step")[2].partition("\n- ")[0]
    start = steps.index("systemctl enable --now")
    token = load(CONFIG).engine.token_file
    assert f"{CONFIG.relative_to(ROOT)} {INSTALLED}\n" in steps[:start]
    assert f"-m 0640 -g trimtab /dev/stdin {token}\n" in steps[:start]


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
    keys = service(DROP_INS / "engine-unit.conf")
    assert keys["User"] == ["root"]
    [paths] = keys["ReadWritePaths"]
    writable = [path.removeprefix("-") for path in paths.split()]
    files = DropIns("vllm.service")
    for file in (files.kept_file, files.try_file):
        assert any(file.is_relative_to(path) for path in writable)


def test_the_drop_in_for_the_host_lane_lets_it_place_others_and_write_what_the_node_shares() -> None:
    keys = service(DROP_INS / "host-lane.conf")
    assert keys["User"] == ["root"]
    assert keys["ProtectKernelTunables"] == ["no"]
    [writable] = keys["ReadWritePaths"]
    assert (Path("/") / NODE_LOCKS).is_relative_to(writable)
    [rights] = keys["CapabilityBoundingSet"]
    # CAP_SYS_ADMIN: the kernel's own check of who sets numa_balancing.
    assert set(rights.split()) == {"CAP_SYS_NICE", "CAP_SYS_PTRACE", "CAP_DAC_OVERRIDE", "CAP_SYS_ADMIN"}


@pytest.mark.parametrize("drop_in", sorted(DROP_INS.iterdir()), ids=lambda file: str(file.name))
def test_drop_ins_stand_beside_each_other_and_are_named_where_the_unit_is(drop_in: Path) -> None:
    assert f"({Path('..') / drop_in.relative_to(ROOT)})" in (ROOT / "docs" / "deploying.md").read_text()
    # An empty one would take from the other what it gives.
    assert all(all(values) for values in service(drop_in).values())


def test_a_wrapped_engine_gets_its_signal_from_trimtab_alone() -> None:
    keys = service(WRAP)
    assert "trimtab serve" in keys["ExecStart"][0]
    assert keys["KillMode"] == ["mixed"]
