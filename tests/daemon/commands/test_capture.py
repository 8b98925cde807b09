"""`trimtab capture`: a profile on order, never beside a trial."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from change.lock import EngineLock
from daemon.profile import taking
from tests.collectors.npu_smi.table_text import Shown, print_table
from tests.daemon.engine_stand import EngineStand
from tests.daemon.profile.profilers import script, simulated
from tests.daemon.trimtab_command import Trimtab, one_line
from tests.prepare import ROOT


@pytest.fixture
def capturing(config: str, tmp_path: Path) -> str:
    """A configuration whose msprof is the simulator's."""
    change(config, msprof=simulated(tmp_path), folder=str(tmp_path / "captures"), quota_mib=64)
    return config


def change(config: str, **capture: Any) -> None:
    values = yaml.safe_load(Path(config).read_text())
    values["capture"] = {**values.get("capture", {}), **capture}
    Path(config).write_text(yaml.safe_dump(values))


def test_a_recording_is_where_it_says(trimtab: Trimtab, capturing: str) -> None:
    told = trimtab(
        *(
            "capture",
            "--way",
            "msprof-system",
            "--devices",
            "0,1",
            "--seconds",
            "1",
            "--json",
            "-c",
            capturing,
        )
    )
    assert told.code == 0, told.err
    (folder,) = told.json["folders"]
    assert len(list(Path(folder).rglob("op_summary_1.csv"))) == 2
    assert "msprof-system recorded" in told.err


def test_where_nothing_can_record_every_reason_is_said(trimtab: Trimtab, capturing: str) -> None:
    told = trimtab("capture", "--seconds", "1", "-c", capturing)
    assert (told.code, told.out) == (1, "")
    assert [line.split(": ")[1] for line in told.err.splitlines()[1:]] == [
        "engine",
        "msprof-dynamic",
        "msprof-system",
    ]


def test_an_engine_that_is_being_changed_is_not_slowed(
    trimtab: Trimtab, capturing: str, engine: EngineStand, tmp_path: Path
) -> None:
    change(capturing, msprof=script(tmp_path, f"touch {tmp_path}/ran"))
    run_dir = Path(yaml.safe_load(Path(capturing).read_text())["engine"]["run_dir"])
    lock = EngineLock(run_dir / "locks", f"stand-{engine.port}-{engine.boots}", "a campaign")
    lock.acquire()
    try:
        told = trimtab("capture", "--way", "msprof-system", "--devices", "0", "-c", capturing)
    finally:
        lock.release()
    assert told.code == 1
    one_line(told)
    assert "a campaign" in told.err
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_command_that_is_ended_ends_msprof(capturing: str, tmp_path: Path, number: signal.Signals) -> None:
    os.mkfifo(tmp_path / "ran")
    change(capturing, msprof=script(tmp_path, f"echo $$ > {tmp_path}/ran; exec sleep 600"))
    words = ["capture", "--way", "msprof-system", "--devices", "0", "--seconds", "300", "-c", capturing]
    with subprocess.Popen(
        [sys.executable, "-m", "daemon.cli", *words],
        cwd=ROOT,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    ) as trimtab:
        tool = int((tmp_path / "ran").read_text())
        trimtab.send_signal(number)
        assert trimtab.wait(30) == 130
    assert not Path(f"/proc/{tool}").exists()
    assert list((tmp_path / "captures").iterdir()) == []


def test_one_die_of_each_card_is_recorded_unless_others_are_named(
    trimtab: Trimtab, capturing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    npu_smi = tmp_path / "npu-smi"
    dies = [
        Shown(phy // 2, phy % 2, "Ascend910", "OK", None, 40, 0, None, (0, 0), (0, 65536), phy)
        for phy in range(4)
    ]
    table = print_table("B'", dies)
    npu_smi.write_text(f"#!/bin/sh\ncat <<'END'\n{table}END\n")
    npu_smi.chmod(0o755)
    monkeypatch.setattr(taking, "_device_files", lambda: [0, 1, 2, 3])
    words = ("capture", "--way", "msprof-system", "--seconds", "1", "--json", "-c", capturing)
    told = trimtab(*words)
    assert told.code == 0, told.err
    (folder,) = told.json["folders"]
    assert len(list(Path(folder).rglob("op_summary_1.csv"))) == 2
    assert told.json["notes"] == [
        "one die of each card is recorded; left out: 1, 3 (--devices chooses others)"
    ]
    told = trimtab(*words, "--devices", "2,3")
    assert told.code == 1
    assert "two dies of card" in told.err


@pytest.mark.parametrize(
    ("words", "said"), [(["--way", "strace"], "msprof-system"), (["--devices", "0;1"], "0,1")]
)
def test_a_wrong_word_is_a_usage_error(trimtab: Trimtab, capturing: str, words: list[str], said: str) -> None:
    told = trimtab("capture", *words, "-c", capturing)
    assert told.code == 2
    one_line(told)
    assert said in told.err
