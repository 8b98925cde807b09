"""The kept command is used again under the operator's same command only, and only if nobody else could write it."""

from __future__ import annotations

from pathlib import Path

import pytest

from change.server import LaunchCommand
from daemon.guardian.launch_file import LaunchFile

GIVEN = ("vllm", "serve", "m")
KEPT = LaunchCommand((*GIVEN, "--block-size", "256"), {"A": "b"})


def test_without_a_file_it_is_the_operators_own(tmp_path: Path) -> None:
    assert LaunchFile(tmp_path / "launch.json", GIVEN).read() == (LaunchCommand(GIVEN), None)


def test_what_was_kept_is_used_and_said(tmp_path: Path) -> None:
    LaunchFile(tmp_path / "launch.json", GIVEN).keep(KEPT)
    command, remark = LaunchFile(tmp_path / "launch.json", GIVEN).read()
    assert command == KEPT
    assert remark is not None
    assert "kept" in remark
    assert (tmp_path / "launch.json").stat().st_mode & 0o777 == 0o600


def test_another_command_of_the_operator_counts_more(tmp_path: Path) -> None:
    LaunchFile(tmp_path / "launch.json", GIVEN).keep(KEPT)
    command, remark = LaunchFile(tmp_path / "launch.json", ("vllm", "serve", "other")).read()
    assert command == LaunchCommand(("vllm", "serve", "other"))
    assert remark is not None
    assert "another one now" in remark


def test_keeping_the_operators_own_leaves_no_file(tmp_path: Path) -> None:
    file = LaunchFile(tmp_path / "launch.json", GIVEN)
    file.keep(KEPT)
    file.keep(LaunchCommand(GIVEN))
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_others_could_write_or_a_link_is_not_used(tmp_path: Path) -> None:
    file = LaunchFile(tmp_path / "launch.json", GIVEN)
    file.keep(KEPT)
    (tmp_path / "launch.json").chmod(0o666)
    command, remark = file.read()
    assert command == LaunchCommand(GIVEN)
    assert remark is not None
    assert "another user" in remark
    (tmp_path / "launch.json").rename(tmp_path / "real.json")
    (tmp_path / "real.json").chmod(0o600)
    (tmp_path / "launch.json").symlink_to(tmp_path / "real.json")
    assert file.read()[0] == LaunchCommand(GIVEN)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"given": ["vllm"], "kept": {"argv": []}}', "\0"])
def test_a_broken_file_is_passed_over_and_said(tmp_path: Path, text: str) -> None:
    path = tmp_path / "launch.json"
    path.write_text(text)
    path.chmod(0o600)
    command, remark = LaunchFile(path, GIVEN).read()
    assert command == LaunchCommand(GIVEN)
    assert remark is not None
    assert "cannot be read" in remark
