"""What the doctor finds on machines of every kind, and how it says to mend it."""

from __future__ import annotations

import asyncio
import socket
import stat
from pathlib import Path
from typing import Any

import pytest

from change.engine import EngineState
from daemon.config import Config
from daemon.doctor import access, devices, engine, holders, own, versions
from daemon.doctor.bundle import STARS, Redactor
from daemon.doctor.compatibility import RELEASES, compatibility
from daemon.doctor.finding import Finding


def config(**values: Any) -> Config:
    return Config.model_validate(values)


def by_name(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.name: finding for finding in findings}


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


# Versions.


NOWHERE = "http://192.0.2.1:80"


def test_versions_are_read_from_the_installers_files(tmp_path: Path) -> None:
    ascend = tmp_path / "usr" / "local" / "Ascend"
    write(ascend / "driver" / "version.info", "Version=24.1.rc3\nascendhal_version=7.35.23\n")
    write(ascend / "nnal" / "atb" / "latest" / "version.info", "nothing to see\n")
    write(tmp_path / "etc" / "hccn.conf", "address_0=192.0.2.7\n")
    found = by_name(versions.findings(NOWHERE, tmp_path))
    assert found["driver"].found == "24.1.rc3, /usr/local/Ascend/driver/version.info"
    assert found["NNAL"].verdict == found["vllm-ascend"].verdict == "unknown"
    assert found["NNAL"].found == "/usr/local/Ascend/nnal/atb/latest/version.info names no version"
    assert (found["/etc/hccn.conf"].verdict, found["/etc/npu.conf"].verdict) == ("ok", "unknown")


def test_a_machine_without_ascend_is_unknown_not_bad(tmp_path: Path) -> None:
    assert {finding.verdict for finding in versions.findings(NOWHERE, tmp_path)} == {"unknown"}


# Which versions belong together.

SET = {
    "vllm-ascend": "0.13.0",
    "vLLM": "0.13.0+empty",
    "CANN": "8.5.0",
    "torch": "2.8.0+cpu",
    "torch_npu": "2.8.0.post2+git1f2e3d4",
    "NNAL": "8.5.0",
    "driver": "25.5.rc2",
}


def test_a_set_that_was_released_together_is_good() -> None:
    assert [(row.name, row.verdict) for row in compatibility(SET)] == [
        ("release set", "ok"),
        ("driver for CANN", "ok"),
        ("NNAL for CANN", "ok"),
    ]


@pytest.mark.parametrize(
    ("change", "name", "words"),
    [
        ({"vLLM": "0.14.1"}, "release set", "vLLM 0.14.1 (released for 0.13.0)"),
        ({"torch_npu": "2.7.1"}, "release set", "torch_npu 2.7.1 (released for 2.8.0.post2)"),
        ({"CANN": "8.3.RC2"}, "release set", "CANN 8.3.RC2 (released for 8.5.0)"),
        ({"driver": "24.1.rc3"}, "driver for CANN", "released for 25.0, 25.2, 25.3, 25.5"),
        ({"NNAL": "8.3.RC1"}, "NNAL for CANN", "NNAL 8.3.RC1 with CANN 8.5.0"),
    ],
)
def test_one_that_does_not_belong_is_named(change: dict[str, str], name: str, words: str) -> None:
    row = by_name(compatibility({**SET, **change}))[name]
    assert row.verdict == "warn"
    assert words in row.found
    assert row.mend


def test_what_is_not_seen_is_not_judged() -> None:
    (row,) = compatibility({"vllm-ascend": "v0.18.0", "vLLM": "0.18.0"})
    assert (row.verdict, row.found) == (
        "ok",
        "as vllm-ascend v0.18.0 was released for; not seen here: CANN, torch, torch_npu",
    )
    assert compatibility({"CANN": "8.5.0"}) == []


def test_a_release_that_no_table_has_is_unknown() -> None:
    assert by_name(compatibility({**SET, "vllm-ascend": "0.99.0"}))["release set"].verdict == "unknown"
    assert by_name(compatibility({**SET, "CANN": "7.0.0"}))["driver for CANN"].verdict == "unknown"
    assert len({row.vllm_ascend for row in RELEASES}) == len(RELEASES)


def test_the_engines_packages_are_read_in_its_container_and_the_driver_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = tmp_path / "proc" / "7"
    inside = process / "root"
    site = inside / "opt" / "venv" / "lib" / "python3.11" / "site-packages"
    for name, number in (("vllm_ascend", "0.13.0"), ("torch_npu", "2.7.1"), ("numpy", "2.0")):
        write(site / f"{name}-{number}.dist-info" / "METADATA", f"Name: {name}\nVersion: {number}\n\n")
    write(inside / "extra" / "vllm-0.13.0.dist-info" / "METADATA", "Name: vllm\nVersion: 0.13.0\n\n")
    write(process / "cmdline", "/opt/venv/bin/python\0-m\0vllm\0")
    write(process / "environ", "HOME=/root\0PYTHONPATH=/extra:relative\0")
    write(tmp_path / "usr" / "local" / "Ascend" / "driver" / "version.info", "Version=25.5.0\n")
    monkeypatch.setenv("TRIMTAB_ENGINE_PID", "7")
    found = by_name(versions.findings(NOWHERE, tmp_path))
    assert found["vllm"].found == "0.13.0, /extra/vllm-0.13.0.dist-info/METADATA"
    assert found["driver"].found.startswith("25.5.0")
    assert "torch_npu 2.7.1 (released for 2.8.0.post2)" in found["release set"].found


def test_an_engine_whose_files_cannot_be_seen_is_unknown(tmp_path: Path) -> None:
    assert versions.site_packages(8, tmp_path) == []


# Who holds which NPU.


def process(root: Path, pid: int, name: str, parent: int, cgroup: str, *files: str) -> None:
    place = root / "proc" / str(pid)
    write(place / "status", f"Name:\t{name}\nPPid:\t{parent}\n")
    write(place / "cgroup", cgroup)
    (place / "fd").mkdir()
    for number, file in enumerate(files):
        (place / "fd" / str(number)).symlink_to(file)


def test_holders_are_named_with_card_and_container(tmp_path: Path) -> None:
    box = "4f1e" * 16
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "davinci0").touch()
    process(
        *(tmp_path, 41, "VLLM::Worker_TP", 40, f"0::/system.slice/docker-{box}.scope\n"),
        *("/dev/null", "/dev/davinci1", "/dev/davinci0", "/dev/davinci_manager"),
    )
    process(tmp_path, 77, "VLLM::EngineCore", 1, "0::/init.scope\n", "/dev/davinci2")
    process(tmp_path, 78, "bash", 1, "0::/\n", "/dev/null")
    rows = holders.findings(tmp_path)
    assert [(row.verdict, row.found) for row in rows] == [
        ("ok", "NPU 0, 1: pid 41 (VLLM::Worker_TP), container 4f1e4f1e4f1e"),
        ("warn", "NPU 2: pid 77 (VLLM::EngineCore), no container, and its server is gone"),
    ]
    assert "77" in rows[1].mend


def test_cards_whose_holders_cannot_be_seen_are_unknown_and_no_cards_no_rows(tmp_path: Path) -> None:
    assert holders.findings(tmp_path) == []
    write(tmp_path / "dev" / "davinci0", "")
    (row,) = holders.findings(tmp_path)
    assert row.verdict == "unknown"


# Access and slices.


def test_what_can_be_read_and_what_is_not_there(tmp_path: Path) -> None:
    write(tmp_path / "proc" / "interrupts", "")
    rows = by_name(access.findings(config(capture={"msprof": "no-such-msprof"}), tmp_path, {}))
    assert rows["the NPUs' interrupts"].verdict == "ok"
    assert rows["kernel messages of the NPU driver"].verdict == "unknown"
    assert rows["profiles (trimtab capture)"].found == "no no-such-msprof on PATH"
    assert "slices" not in rows


def test_slices_are_said_with_what_they_make_unknown(tmp_path: Path) -> None:
    write(tmp_path / "dev" / "vdavinci100", "")
    rows = by_name(access.findings(config(), tmp_path, {"ASCEND_VNPU_SPECS": "vir08"}))
    assert rows["slices"].found.endswith("vdavinci100, ASCEND_VNPU_SPECS")
    assert "AICore" in rows["slices"].mend


# Devices.


def test_devices_on_a_node(tmp_path: Path) -> None:
    for name in ("davinci0", "davinci1", "davinci_manager"):
        write(tmp_path / "dev" / name, "")
    (found,) = devices.device_files(config(), tmp_path)
    assert (found.verdict, found.found) == ("ok", "2 NPUs")
    (tmp_path / "dev" / "davinci_manager").unlink()
    assert by_name(devices.device_files(config(), tmp_path))["davinci_manager"].verdict == "bad"


def test_devices_in_a_sidecar_are_bad_and_none_is_good(tmp_path: Path) -> None:
    write(tmp_path / "dev" / "davinci3", "")
    (found,) = devices.device_files(config(deployment="sidecar"), tmp_path)
    assert found.verdict == "bad"
    assert "remove the /dev/davinci mounts" in found.mend
    (found,) = devices.device_files(config(deployment="sidecar"), tmp_path / "empty")
    assert found.verdict == "ok"


def npu_smi(tmp_path: Path, script: str) -> Config:
    path = tmp_path / "npu-smi"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return config(collect={"npu_smi": {"command": str(path)}})


@pytest.mark.parametrize(
    ("script", "verdict", "said"),
    [
        ("echo '| npu-smi 24.1.rc3   Version: 24.1.rc3 |'", "ok", "npu-smi 24.1.rc3 Version: 24.1.rc3"),
        ("echo 'dcmi module initialize failed'; exit 187", "bad", "-8005"),
        ("exit 172", "bad", "-8020"),
        ("exit 9", "bad", "ended with 9"),
        ("exec sleep 60", "bad", "did not end within"),
    ],
)
def test_npu_smi_that_answers_fails_or_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, verdict: str, said: str
) -> None:
    monkeypatch.setattr(devices, "NPU_SMI_SECONDS", 1.0)
    (found,) = asyncio.run(devices.npu_smi(npu_smi(tmp_path, script)))
    assert found.verdict == verdict
    assert said in found.found


def test_npu_smi_is_not_run_in_a_sidecar() -> None:
    (found,) = asyncio.run(devices.npu_smi(config(deployment="sidecar")))
    assert (found.verdict, found.mend) == ("unknown", "set collect.npu_exporter.url to its /metrics")
    url = "http://127.0.0.1:8082/metrics"
    (found,) = asyncio.run(
        devices.npu_smi(config(deployment="sidecar", collect={"npu_exporter": {"url": url}}))
    )
    assert found.verdict == "ok"


# The plugin.


def state(**changes: Any) -> EngineState:
    values: dict[str, Any] = {
        "plugin": "0.1.0",
        "engine": "vllm",
        "engine_version": "0.32.0",
        "boot_id": "b",
        "epoch": 3,
        "values": {},
        "ceilings": {},
        "floors": {},
        "lease_remaining_seconds": None,
        "gate": "open",
        "dp_ranks": 1,
        "api_servers": 1,
        "scheduler": "Scheduler",
        "scheduler_known": True,
    }
    return EngineState(**(values | changes))


@pytest.mark.parametrize(
    ("changes", "mine", "name", "verdict"),
    [
        ({}, "0.1.0", "version", "ok"),
        ({"plugin": "0.1.7"}, "0.1.0", "version", "ok"),
        ({"plugin": "0.2.0"}, "0.1.0", "version", "bad"),
        ({"scheduler_known": False}, "0.1.0", "scheduler", "warn"),
        ({"gate": "closed"}, "0.1.0", "state", "ok"),
    ],
)
def test_the_plugins_answer_is_judged(changes: dict[str, Any], mine: str, name: str, verdict: str) -> None:
    found = by_name(engine.plugin_findings(state(**changes), mine))[name]
    assert found.verdict == verdict
    assert bool(found.mend) == (verdict != "ok")


# Folders.


def test_folders_that_cannot_be_written_are_bad_with_the_mend(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    settings = config(
        engine={"run_dir": str(tmp_path / "file" / "run")}, store={"url": f"sqlite:///{tmp_path}/file/x.db"}
    )
    found = by_name(own.folders(settings))
    assert (found["run folder"].verdict, found["store"].verdict) == ("bad", "bad")
    assert "engine.run_dir" in found["run folder"].mend
    assert "store.url" in found["store"].mend


def test_a_thrown_kill_switch_is_said(tmp_path: Path) -> None:
    settings = config(engine={"run_dir": str(tmp_path)}, store={"url": f"sqlite:///{tmp_path}/x.db"})
    assert "kill switch" not in by_name(own.folders(settings))
    (tmp_path / "stop").touch()
    assert by_name(own.folders(settings))["kill switch"].verdict == "warn"


# What is sent to others.


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer abcdef123456",
        '{"api_key": "abcdef123456"}',
        "--api-key=abcdef123456",
        "TRIMTAB_WEB_TOKEN=abcdef123456",
        "password: abcdef123456",
        "postgresql://me:abcdef123456@db/trimtab",
        "curl -H 'authorization: bearer abcdef123456'",
    ],
)
def test_what_looks_like_a_secret_is_taken_out(text: str) -> None:
    clean = Redactor([]).clean(text)
    assert "abcdef123456" not in clean
    assert STARS in clean


def test_known_secrets_are_taken_out_wherever_they_stand() -> None:
    clean = Redactor(["s3cret-token", "s3cret-token-longer", ""]).clean(
        "a s3cret-token-longer b s3cret-token c"
    )
    assert clean == f"a {STARS} b {STARS} c"


def test_the_path_of_a_secret_file_stays() -> None:
    assert Redactor([]).clean("token_file: /run/trimtab/token") == "token_file: /run/trimtab/token"


# Engines watched beside the tuned one.


def test_a_watched_engine_that_does_not_answer_is_bad() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    (row,) = asyncio.run(
        engine.watched(config(collect={"engines": [{"name": "decode-0", "url": f"http://127.0.0.1:{port}"}]}))
    )
    assert row.verdict == "bad" and "decode-0" in row.name
