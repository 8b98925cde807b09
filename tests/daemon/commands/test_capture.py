"""`trimtab capture`: a profile on order, never beside a trial."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from change.lock import EngineLock
from tests.daemon.engine_stand import EngineStand
from tests.daemon.profile.profilers import script, simulated
from tests.daemon.trimtab_command import Trimtab, one_line


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


@pytest.mark.parametrize(
    ("words", "said"), [(["--way", "strace"], "msprof-system"), (["--devices", "0;1"], "0,1")]
)
def test_a_wrong_word_is_a_usage_error(trimtab: Trimtab, capturing: str, words: list[str], said: str) -> None:
    told = trimtab("capture", *words, "-c", capturing)
    assert told.code == 2
    one_line(told)
    assert said in told.err
