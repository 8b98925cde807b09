"""Files are followed over rotation, cuts and restarts: each line once, or it is said."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from collectors.logs import follow
from collectors.logs.find import Pattern
from collectors.logs.follow import FILE_BYTES, PASS_BYTES, Follower, Reading
from collectors.logs.line import MAX_LINE
from collectors.logs.position import Positions, load, save


def lines(reading: Reading) -> list[str]:
    return [line for block in reading.blocks for line in block.lines]


def following(path: Path, glob: str = "engine.log") -> Follower:
    """A follower that has seen the folder as it is and takes what comes as new."""
    follower = Follower([Pattern("engine", str(path / glob))])
    follower.read()
    return follower


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_what_is_there_at_first_is_not_news_and_what_comes_is(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text("old\nhalf of an old")
    follower = following(tmp_path, "*.log")
    append(log, " line\nnew\nhalf")
    (tmp_path / "second.log").write_text("second\n")
    assert lines(follower.read()) == ["new", "second"]
    append(log, " is whole\n")
    assert lines(follower.read()) == ["half is whole"]
    assert lines(follower.read()) == []


def test_a_renamed_file_is_read_to_its_end(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text("")
    follower = following(tmp_path)
    append(log, "one\n")
    follower.read()
    append(log, "two\n")
    log.rename(tmp_path / "engine.log.1")
    log.write_text("three\n")
    append(tmp_path / "engine.log.1", "written late\n")
    reading = follower.read()
    assert sorted(lines(reading)) == ["three", "two", "written late"]
    assert reading.remarks == []
    append(tmp_path / "engine.log.1", "later still\n")
    assert lines(follower.read()) == ["later still"]


@pytest.mark.parametrize("copied", [False, True])
def test_a_link_is_followed_through_the_rotation_of_what_it_leads_to(tmp_path: Path, copied: bool) -> None:
    pod = tmp_path / "pods" / "engine"
    pod.mkdir(parents=True)
    (tmp_path / "containers").mkdir()
    (tmp_path / "containers" / "engine_default.log").symlink_to(pod / "0.log")
    log = pod / "0.log"
    log.write_text("")
    follower = following(tmp_path / "containers", "*.log")
    append(log, "one\n")
    assert lines(follower.read()) == ["one"]
    append(log, "two\n")
    if copied:
        shutil.copy(log, pod / "0.log.20260203")
        os.truncate(log, 0)
        append(log, "three, longer than what was read before\n")
    else:
        log.rename(pod / "0.log.20260203")
        log.write_text("three, longer than what was read before\n")
    reading = follower.read()
    assert sorted(lines(reading)) == ["three, longer than what was read before", "two"]
    assert reading.remarks == []


@pytest.mark.parametrize("glob", ["engine.log", "engine.log*"])
def test_a_file_cut_after_it_was_copied_is_read_to_its_end(tmp_path: Path, glob: str) -> None:
    log = tmp_path / "engine.log"
    log.write_text("")
    follower = following(tmp_path, glob)
    append(log, "one\n")
    follower.read()
    append(log, "two\n")
    shutil.copy(log, tmp_path / "engine.log.1")
    os.truncate(log, 0)
    append(log, "three, longer than what was read before\n")
    reading = follower.read()
    assert sorted(lines(reading)) == ["three, longer than what was read before", "two"]
    assert reading.remarks == []
    assert lines(follower.read()) == []


def test_a_copy_that_is_seen_before_the_cut_is_not_read_again(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text("")
    follower = following(tmp_path, "engine.log*")
    append(log, "one\n")
    follower.read()
    append(log, "two\n")
    shutil.copy(log, tmp_path / "engine.log.1")
    assert lines(follower.read()) == ["two"]
    os.truncate(log, 0)
    append(log, "three\n")
    assert lines(follower.read()) == ["three"]


def test_a_cut_without_a_copy_is_said(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text("")
    follower = following(tmp_path)
    append(log, "one\n")
    follower.read()
    log.write_text("two, longer than before\n")
    reading = follower.read()
    assert lines(reading) == ["two, longer than before"]
    assert reading.remarks == [f"{log}: was cut or overwritten; lines written just before may be lost"]


def test_a_file_removed_too_early_is_said(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text("")
    follower = following(tmp_path)
    append(log, "x" * 99 + "\n" * 2 + "half")
    follower.read()
    log.unlink()
    reading = follower.read()
    assert reading.remarks == [f"{log}: removed before its last 4 bytes were read"]
    assert reading.notes == [f"{log}: is not there"]
    assert follower.positions == []


def test_a_restart_goes_on_where_it_was(tmp_path: Path) -> None:
    log, kept = tmp_path / "engine.log", tmp_path / "kept.json"
    log.write_text("old\n")
    follower = following(tmp_path, "*.log")
    append(log, "one\n")
    follower.read()
    glob = str(tmp_path / "*.log")
    save(kept, Positions(files=follower.positions, followed=[glob]))
    append(log, "two\n")
    log.rename(tmp_path / "engine.log.1")
    log.write_text("three\n")
    positions = load(kept)
    assert positions is not None
    again = Follower([Pattern("engine", glob)], positions.files, positions.followed)
    assert sorted(lines(again.read())) == ["three", "two"]


def test_what_is_followed_only_now_is_no_news_after_a_restart(tmp_path: Path) -> None:
    (tmp_path / "engine.log").write_text("")
    follower = following(tmp_path)
    (tmp_path / "other.txt").write_text("an old story\n")
    globs = [str(tmp_path / "engine.log"), str(tmp_path / "*.txt")]
    again = Follower([Pattern("engine", glob) for glob in globs], follower.positions, globs[:1])
    assert lines(again.read()) == []
    append(tmp_path / "other.txt", "news\n")
    assert lines(again.read()) == ["news"]


def test_a_folder_that_cannot_be_listed_for_a_while_is_read_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "engine.log"
    log.write_text("")
    follower = following(tmp_path, "*.log")
    append(log, "one\n")
    follower.read()

    def denied(*_: object, **__: object) -> bool:
        raise PermissionError(13, "Permission denied")

    append(log, "two\n")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    monkeypatch.setattr(os, "scandir", denied)
    reading = follower.read()
    assert (lines(reading), reading.remarks, len(reading.notes)) == ([], [], 1)
    monkeypatch.undo()
    assert lines(follower.read()) == ["two"]


def test_a_pass_is_bounded_and_the_rest_waits(tmp_path: Path) -> None:
    logs = [tmp_path / f"{number}.log" for number in range(6)]
    for log in logs:
        log.write_text("")
    follower = following(tmp_path, "*.log")
    for log in logs:
        log.write_text("".join(f"{log.name} {number:06}\n" for number in range(FILE_BYTES // 13 * 2)))
    written = sum(log.stat().st_size for log in logs)
    found: list[str] = []
    for _ in range(20):
        reading = follower.read()
        size = sum(len(line) + 1 for line in lines(reading))
        assert size <= PASS_BYTES
        assert max(len(block.lines) * 13 for block in reading.blocks) <= FILE_BYTES
        found += lines(reading)
        assert reading.backlog.get("engine", 0) == written - sum(len(line) + 1 for line in found)
        if not reading.backlog:
            break
    assert len(found) == len(set(found)) == sum(FILE_BYTES // 13 * 2 for _ in logs)


def test_a_line_without_end_is_cut_and_said(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text("")
    follower = following(tmp_path)
    with log.open("ab") as file:
        file.truncate(100 * 1024 * 1024)  # zeros, as a file cut under its writer has them
        file.seek(0, os.SEEK_END)
        file.write(b"E" * 1024 * 1024 + b"\nnext\n")
    found: list[str] = []
    remarks: list[str] = []
    for _ in range(4):
        reading = follower.read()
        found += lines(reading)
        remarks += reading.remarks
    assert found[-1] == "next"
    assert all(len(line) <= MAX_LINE for line in found)
    assert remarks[0].endswith(("was cut", "written too fast"))


def test_a_file_far_behind_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "LONGEST_BACKLOG", 4 * FILE_BYTES)
    log = tmp_path / "engine.log"
    log.write_text("")
    follower = following(tmp_path)
    log.write_text("".join(f"{number:011}\n" for number in range(FILE_BYTES // 12 * 6)))
    reading = follower.read()
    found = lines(reading)
    assert found == [f"{number:011}" for number in range(int(found[0]), FILE_BYTES // 12 * 6)]
    assert len(reading.remarks) == 1
    assert "bytes passed over: written too fast" in reading.remarks[0]


def test_bytes_that_are_no_text_are_kept_as_numbers(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text("")
    follower = following(tmp_path)
    log.write_bytes(b"caf\xe9 \xff\xfe\n")
    assert lines(follower.read()) == ["caf\\xe9 \\xff\\xfe"]


def test_what_cannot_be_read_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pipe.log").touch()
    follower = following(tmp_path, "*.log")
    os.mkfifo(tmp_path / "b.log")  # named by a glob only: passed over
    (tmp_path / "c.log").write_text("text\n")
    really = os.open

    def denied(path: str | Path, flags: int) -> int:
        if Path(path).name == "c.log":
            raise PermissionError(13, "Permission denied")
        return really(path, flags)

    monkeypatch.setattr(os, "open", denied)
    reading = follower.read()
    assert reading.notes == [
        f"{tmp_path / 'c.log'}: cannot be read: Permission denied; let the daemon's user read it",
    ]
    monkeypatch.undo()
    assert lines(follower.read()) == ["text"]
