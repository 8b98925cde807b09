"""A copy is told by its name and by what it holds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from collectors.logs.find import Found, Pattern, find_files
from collectors.logs.position import Position, mark_at
from collectors.logs.rotation import holds, may_be_copy, moved, open_file, read_elsewhere, start


def found(path: Path) -> Found:
    (file,) = find_files([Pattern("engine", str(path))], [])
    return file


def read_to(path: Path, offset: int) -> Position:
    file = found(path)
    descriptor = open_file(file, [])
    assert descriptor is not None
    try:
        return start(file).model_copy(update={"offset": offset, "mark": mark_at(descriptor, offset)})
    finally:
        os.close(descriptor)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "engine.log"
    path.write_text("one\ntwo\n")
    return path


@pytest.mark.parametrize(
    ("name", "may"),
    [
        ("engine.log.1", True),
        ("engine-20260203.log", True),
        ("engine.log", False),
        ("other.log.1", False),
        ("sub/engine.log.1", False),
    ],
)
def test_a_copy_is_named_after_its_original(log: Path, name: str, may: bool) -> None:
    path = log.parent / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("x")
    assert may_be_copy(found(path), read_to(log, 4)) is may


def test_a_file_holds_what_was_read_until_it_is_written_anew(log: Path) -> None:
    position = read_to(log, 4)
    log.write_text("one\nthree\n")
    assert holds(found(log), position, []) is True
    log.write_text("eno\ntwo\n")
    assert holds(found(log), position, []) is False
    file = found(log)
    log.unlink()
    assert holds(file, position, []) is None


def test_a_copy_that_the_original_still_holds_is_read_there(log: Path) -> None:
    position = read_to(log, 4)
    copy = log.parent / "engine.log.1"
    copy.write_text("one\n")
    read = read_elsewhere(found(copy), position)
    assert read is not None
    assert (read.offset, read.path, read.inode) == (4, str(copy), copy.stat().st_ino)
    copy.write_text("one\ntwo\nthree\n")
    assert read_elsewhere(found(copy), position) is None
    copy.write_text("")
    assert read_elsewhere(found(copy), position) is None
    log.unlink()
    assert read_elsewhere(found(copy), position) is None


def test_a_name_that_another_file_got_is_not_opened(log: Path) -> None:
    file = found(log)
    (log.parent / "new").write_text("x")
    (log.parent / "new").rename(log)
    assert open_file(file, []) is None


def test_a_position_moves_with_its_file(log: Path) -> None:
    position = read_to(log, 4)
    log.rename(log.parent / "engine.log.1")
    there = moved(position, found(log.parent / "engine.log.1"))
    assert (there.path, there.offset, there.mark) == (str(log.parent / "engine.log.1"), 4, position.mark)
