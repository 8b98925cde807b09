"""What the doctor finds on machines of every kind, and how it says to mend it."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path
from typing import Any

import pytest

from change.engine import EngineState
from daemon.config import Config
from daemon.doctor import devices, engine, machine, own
from daemon.doctor.bundle import STARS, Redactor
from daemon.doctor.finding import Finding


def config(**values: Any) -> Config:
    return Config.model_validate(values)


def by_name(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.name: finding for finding in findings}


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


# Versions.


def test_versions_are_read_from_the_installers_files(tmp_path: Path) -> None:
    ascend = tmp_path / "usr" / "local" / "Ascend"
    write(ascend / "driver" / "version.info", "Version=24.1.rc3\nascendhal_version=7.35.23\n")
    write(ascend / "firmware" / "version.info", "Version=7.5.0.3.220\nfirmware_version=1.0\n")
    write(
        ascend / "ascend-toolkit" / "latest" / "version.cfg",
        "# version: 1.0\nruntime_running_version=[7.6.0.1.220:8.1.RC1]\n",
    )
    write(ascend / "nnal" / "atb" / "latest" / "version.info", "nothing to see\n")
    found = by_name(machine.ascend(tmp_path))
    assert {name: finding.found for name, finding in found.items()} == {
        "driver": "24.1.rc3",
        "firmware": "7.5.0.3.220",
        "CANN toolkit": "8.1.RC1",
        "NNAL": "/usr/local/Ascend/nnal/atb/latest/version.info names no version",
    }
    assert found["NNAL"].verdict == "unknown"


def test_a_machine_without_ascend_is_unknown_not_bad(tmp_path: Path) -> None:
    assert {finding.verdict for finding in machine.ascend(tmp_path)} == {"unknown"}


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
