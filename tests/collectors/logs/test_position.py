"""Positions outlive a restart, and a damaged file is refused with a reason."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from collectors.logs.position import EMPTY_MARK, Position, Positions, load, mark_at, save

KEPT = Positions(
    files=[Position(kind="plog", path="/a.log", device=3, inode=4, offset=5, mark="6", skipping=True)],
    boot_id="7",
    kernel_seq=8,
    journal_cursor="9",
)


def test_what_is_kept_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "state" / "log-positions.json"
    assert load(path) is None
    save(path, KEPT)
    assert load(path) == KEPT
    assert path.stat().st_mode & 0o077 == 0
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "is damaged"),
        (b"\xff", "cannot be read"),
        (b'{"files": [{"path": 3}]}', "is damaged"),
        (b'{"version": 2}', "newer Trimtab"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(tmp_path: Path, text: bytes, reason: str) -> None:
    path = tmp_path / "log-positions.json"
    path.write_bytes(text)
    with pytest.raises(ValueError, match=reason) as refused:
        load(path)
    assert str(path) in str(refused.value)


def test_a_failed_write_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log-positions.json"
    save(path, KEPT)

    def full(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        save(path, Positions())
    monkeypatch.undo()
    assert load(path) == KEPT
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_a_mark_is_of_what_was_read(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"a" * 5000)
    descriptor = os.open(path, os.O_RDWR)
    try:
        before = mark_at(descriptor, 4000)
        assert mark_at(descriptor, 0) == EMPTY_MARK
        os.pwrite(descriptor, b"b", 4500)
        assert mark_at(descriptor, 4000) == before
        os.pwrite(descriptor, b"b", 3999)
        assert mark_at(descriptor, 4000) != before
        os.pwrite(descriptor, b"ab", 3999)
        os.pwrite(descriptor, b"b", 0)
        assert mark_at(descriptor, 4000) != before
        os.ftruncate(descriptor, 3999)
        assert mark_at(descriptor, 4000) != before
    finally:
        os.close(descriptor)
