"""The engine lock: one holder, who can be named, and who lets go by dying."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from change.lock import EngineLock, LockError, LockHeld

HOLDER = """
import sys
from pathlib import Path
from change.lock import EngineLock
EngineLock(Path(sys.argv[1]), "b1", "trimtab tune").acquire()
print("held", flush=True)
sys.stdin.read()
"""


def test_a_second_one_is_refused_with_who_holds_it(tmp_path: Path) -> None:
    with EngineLock(tmp_path, "b1", "trimtab run") as first:
        assert first.held
        with pytest.raises(LockHeld) as caught:
            EngineLock(tmp_path, "b1", "trimtab apply").acquire()
    assert caught.value.holder.startswith(f"trimtab run (pid {os.getpid()}, started 20")
    assert "trimtab run" in str(caught.value)


def test_the_same_one_twice_is_refused_too(tmp_path: Path) -> None:
    with EngineLock(tmp_path, "b1") as lock, pytest.raises(LockHeld):
        lock.acquire()
    assert not lock.held


def test_it_can_be_taken_again_after_its_release(tmp_path: Path) -> None:
    lock = EngineLock(tmp_path, "b1")
    for _ in range(3):
        with lock, pytest.raises(LockHeld):
            EngineLock(tmp_path, "b1").acquire()
    lock.release()
    assert not lock.held


def test_it_leaves_no_file_behind(tmp_path: Path) -> None:
    with EngineLock(tmp_path / "run", "b1") as lock:
        assert lock.path.exists()
    assert list((tmp_path / "run").iterdir()) == []


def test_other_boots_have_other_locks(tmp_path: Path) -> None:
    with EngineLock(tmp_path, "b1"), EngineLock(tmp_path, "b2"):
        pass


@pytest.mark.parametrize("boot_id", ["../../etc/passwd", "a/b", "", "x" * 5000, "naïve \ud800 \0"])
def test_a_boot_id_that_is_no_file_name_stays_inside_the_directory(tmp_path: Path, boot_id: str) -> None:
    with EngineLock(tmp_path, boot_id) as lock:
        assert lock.path.parent == tmp_path
        assert [path.name for path in tmp_path.iterdir()] == [lock.path.name]
        with pytest.raises(LockHeld):
            EngineLock(tmp_path, boot_id).acquire()


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LockError, match="runtime directory"):
        EngineLock(tmp_path / "file" / "run", "b1").acquire()


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("keep me")
    lock = EngineLock(tmp_path / "run", "b1")
    lock.path.parent.mkdir()
    lock.path.symlink_to(precious)
    with pytest.raises(LockError):
        lock.acquire()
    assert precious.read_text() == "keep me"


def test_the_lock_of_a_process_that_was_killed_is_free(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        lock = EngineLock(tmp_path, "b1")
        with pytest.raises(LockHeld, match=f"trimtab tune \\(pid {holder.pid}"):
            lock.acquire()
        holder.send_signal(signal.SIGKILL)
        holder.wait(timeout=10)
        with lock:
            assert lock.held


def test_a_holder_that_has_not_written_its_name_yet(tmp_path: Path) -> None:
    with EngineLock(tmp_path, "b1") as lock:
        lock.path.write_text("")
        with pytest.raises(LockHeld, match="has not said who it is"):
            EngineLock(tmp_path, "b1").acquire()
        lock.path.write_bytes(b"\xff\x1b[31m" * 1000)
        with pytest.raises(LockHeld) as caught:
            EngineLock(tmp_path, "b1").acquire()
    assert caught.value.holder.isprintable()
    assert len(caught.value.holder) < 1000


def test_a_file_removed_while_it_is_being_locked_is_left_for_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else two could hold "the" lock: one on the removed file, one on the file at the path."""
    holder, lock = EngineLock(tmp_path, "b1"), EngineLock(tmp_path, "b1")
    holder.acquire()
    real = fcntl.flock

    def let_go_first(file: int, operation: int) -> None:
        holder.release()
        real(file, operation)

    monkeypatch.setattr("change.lock.fcntl.flock", let_go_first)
    with lock:
        monkeypatch.undo()
        with pytest.raises(LockHeld):
            EngineLock(tmp_path, "b1").acquire()
