"""What the patterns of the configuration name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from collectors.logs import find
from collectors.logs.find import Pattern, find_files


def names(folder: Path, glob: str, notes: list[str] | None = None) -> list[str]:
    found = find_files([Pattern("plog", str(folder / glob))], [] if notes is None else notes)
    return [str(file.path.relative_to(folder)) for file in found]


def test_globs_find_files_and_not_packed_ones(tmp_path: Path) -> None:
    for name in ("debug/plog/a.log", "run/plog/b.log", "run/plog/c.log.gz", "run/device-3/d.log"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert names(tmp_path, "*/plog/*") == ["debug/plog/a.log", "run/plog/b.log"]
    assert names(tmp_path, "**/*.log") == ["debug/plog/a.log", "run/device-3/d.log", "run/plog/b.log"]
    assert names(tmp_path, "run/device-[0-9]/*.log") == ["run/device-3/d.log"]


def test_a_file_that_two_patterns_name_is_found_once(tmp_path: Path) -> None:
    (tmp_path / "a.log").touch()
    (tmp_path / "b.log").symlink_to(tmp_path / "a.log")
    patterns = [Pattern("engine", str(tmp_path / "a.log")), Pattern("plog", str(tmp_path / "*.log"))]
    assert [file.kind for file in find_files(patterns, [])] == ["engine"]


def test_home_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "a.log").touch()
    assert [file.path for file in find_files([Pattern("plog", "~/*.log")], [])] == [tmp_path / "a.log"]


def test_only_a_plain_path_must_be_there(tmp_path: Path) -> None:
    notes: list[str] = []
    assert names(tmp_path, "none/*.log", notes) == []
    assert notes == []
    assert names(tmp_path, "none.log", notes) == []
    assert notes == [f"{tmp_path / 'none.log'}: is not there"]


def test_only_a_plain_path_must_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.log").mkdir()
    notes: list[str] = []
    assert names(tmp_path, "*.log", notes) == []
    assert notes == []
    assert names(tmp_path, "a.log", notes) == []
    assert notes == [f"{tmp_path / 'a.log'}: is no file that can be followed"]


def test_a_forbidden_folder_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may read everything
    notes: list[str] = []
    assert names(tmp_path, "*.log", notes) == []
    assert notes == [f"{tmp_path}: cannot be listed: permission denied; let the daemon's user read it"]


def test_of_too_many_files_the_newest_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find, "MAX_FILES", 2)
    for number in range(4):
        (tmp_path / f"{number}.log").touch()
        os.utime(tmp_path / f"{number}.log", (1000 - number, 1000 - number))
    notes: list[str] = []
    assert sorted(names(tmp_path, "*.log", notes)) == ["0.log", "1.log"]
    assert notes == ["4 log files: only the 2 written last are followed"]
