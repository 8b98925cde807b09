"""The simulated msprof: its files, its prompt, and what it says to wrong arguments."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from sim.msprof import HEADER, LAYERS, MOST_STEPS, STEP, main, rows


def test_a_recording_is_a_folder_a_device_with_the_operators_in_order(tmp_path: Path) -> None:
    assert main([f"--output={tmp_path}", "--sys-period=1", "--sys-devices=0,2"]) == 0
    tables = sorted(tmp_path.glob("PROF_*/mindstudio_profiler_output/op_summary_1.csv"))
    assert len(tables) == 2
    with tables[0].open(newline="") as file:
        table = list(csv.DictReader(file))
    assert len(table) == 30 * LAYERS * len(STEP)
    starts = [float(row["Task Start Time(us)"]) for row in table]
    assert starts == sorted(starts)
    assert {len(row) for row in table} == {len(HEADER)}


def test_the_prompt_records_between_start_and_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("stop\nstart\nstop\nquit\nstart\n"))
    assert main([f"--output={tmp_path}", "--dynamic=on", "--pid=7"]) == 0
    assert len(list(tmp_path.glob("PROF_*"))) == 1


def test_a_long_recording_is_cut_and_equal_devices_record_equally() -> None:
    assert len(list(rows(1, 3600.0))) == MOST_STEPS * LAYERS * len(STEP)
    assert list(rows(1, 0.1)) == list(rows(1, 0.1)) != list(rows(2, 0.1))


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="Argument invalid"):
        main(["--output", str(tmp_path)])
    assert main(["--sys-period=1"]) == 1
