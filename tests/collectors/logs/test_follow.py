"""Files are followed over rotation, cuts and restarts: each line once, or it is said."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

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


class Rotation(RuleBasedStateMachine):
    """A log that is written, rotated in every way, cut and read, by followers that come and go."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="follow-"))
        self.live = self.folder / "live.log"
        self.live.write_text("")
        self.pattern = [Pattern("engine", str(self.folder / "live.log*"))]
        self.follower = Follower(self.pattern)
        self.follower.read()
        self.clock = 1_700_000_000
        self.written = 0
        self.rotated = 0
        self.read_lines: Counter[str] = Counter()
        self.pending: dict[Path, list[str]] = {self.live: []}
        """Lines not read yet, by the file they stand in."""
        self.half: dict[Path, bool] = {}
        self.may_be_lost: set[str] = set()
        self.expected: list[str] = []
        self.losses = 0
        self.remarks = 0

    def teardown(self) -> None:
        self.look()
        self.look()
        missing = [line for line in self.expected if line not in self.read_lines]
        assert set(missing) <= self.may_be_lost
        assert not missing or self.remarks or self.losses
        shutil.rmtree(self.folder)

    def touch(self, path: Path) -> None:
        """A time of writing that differs from all before, however fast the machine is."""
        self.clock += 1
        os.utime(path, (self.clock, self.clock))

    def write_to(self, path: Path, count: int, width: int) -> None:
        new = [f"{self.written + number:05} ".ljust(width, "x") for number in range(count)]
        self.written += count
        append(path, "".join(line + "\n" for line in new))
        self.touch(path)
        self.expected += new
        self.pending.setdefault(path, []).extend(new)

    @rule(count=st.integers(1, 40), width=st.integers(6, 400))
    def write(self, count: int, width: int) -> None:
        self.write_to(self.live, count, width)

    @rule()
    def write_in_two(self) -> None:
        whole = f"{self.written:05} in two"
        self.written += 1
        self.expected.append(whole)
        append(self.live, whole[:8])
        self.touch(self.live)
        self.pending[self.live].append(whole)
        self.look()
        append(self.live, whole[8:] + "\n")
        self.touch(self.live)
        self.pending[self.live].append(whole)

    @rule(count=st.integers(1, 5))
    def write_late(self, count: int) -> None:
        """The writer has not noticed the rotation yet."""
        old = self.folder / f"live.log.{self.rotated}"
        if old.exists():
            self.write_to(old, count, 20)

    def shift(self) -> Path:
        self.rotated += 1
        return self.folder / f"live.log.{self.rotated}"

    @rule()
    def rename(self) -> None:
        target = self.shift()
        self.live.rename(target)
        self.pending[target] = self.pending.pop(self.live)
        self.live.write_text("")
        self.touch(self.live)
        self.pending[self.live] = []

    @rule()
    def copy_and_cut(self) -> None:
        target = self.shift()
        shutil.copy(self.live, target)
        self.touch(target)
        os.truncate(self.live, 0)
        self.touch(self.live)
        self.pending[target] = self.pending.pop(self.live)
        self.pending[self.live] = []

    @rule()
    def copy_read_and_cut(self) -> None:
        target = self.shift()
        shutil.copy(self.live, target)
        self.touch(target)
        self.look()
        os.truncate(self.live, 0)
        self.touch(self.live)
        self.pending[self.live] = []

    @rule()
    def cut(self) -> None:
        self.may_be_lost.update(self.pending[self.live])
        self.losses += bool(self.pending[self.live])
        os.truncate(self.live, 0)
        self.touch(self.live)
        self.pending[self.live] = []

    @rule()
    def remove_oldest(self) -> None:
        old = sorted(self.folder.glob("live.log.*"))
        if old:
            self.may_be_lost.update(self.pending.get(old[0], []))
            self.losses += bool(self.pending.get(old[0], []))
            old[0].unlink()
            self.pending.pop(old[0], None)

    @rule()
    def look(self) -> None:
        reading = self.follower.read()
        assert reading.notes == []
        self.remarks += len(reading.remarks)
        self.read_lines.update(lines(reading))
        self.pending = {path: [] for path in self.pending}

    @rule()
    def restart(self) -> None:
        followed = [pattern.glob for pattern in self.pattern]
        text = Positions(files=self.follower.positions, followed=followed).model_dump_json()
        kept = Positions.model_validate_json(text)
        self.follower = Follower(self.pattern, kept.files, kept.followed)

    @invariant()
    def nothing_is_read_twice_or_invented(self) -> None:
        assert all(count == 1 for count in self.read_lines.values())
        assert self.read_lines.keys() <= set(self.expected)


class RotationOutOfSight(Rotation):
    """The same where the pattern names the live file only: what was seen once is found again, what never was is not."""

    def __init__(self) -> None:
        super().__init__()
        self.pattern = [Pattern("engine", str(self.live))]
        self.follower = Follower(self.pattern)
        self.follower.read()
        self.seen = True
        """Whether a pass has seen the present live file."""
        self.begun = False
        """Whether something of the present live file was read."""
        self.out_of_sight: set[Path] = set()

    def write_to(self, path: Path, count: int, width: int) -> None:
        super().write_to(path, count, width)
        if path in self.out_of_sight:
            self.may_be_lost.update(self.expected[-count:])
            self.losses += 1

    def lose(self, target: Path) -> None:
        self.out_of_sight.add(target)
        self.may_be_lost.update(self.pending.get(target, []))
        self.losses += 1

    @rule()
    def rename(self) -> None:
        super().rename()
        if not self.seen:
            self.lose(self.folder / f"live.log.{self.rotated}")
        self.seen = self.begun = False

    @rule()
    def copy_and_cut(self) -> None:
        super().copy_and_cut()
        if not self.begun:
            self.lose(self.folder / f"live.log.{self.rotated}")
        self.begun = False

    @rule()
    def copy_read_and_cut(self) -> None:
        super().copy_read_and_cut()
        if not self.begun:
            self.lose(self.folder / f"live.log.{self.rotated}")
        self.begun = False

    @rule()
    def cut(self) -> None:
        super().cut()
        self.begun = False

    @rule()
    def look(self) -> None:
        super().look()
        self.seen = True
        self.begun = self.begun or "\n" in self.live.read_text()


TestRotation = Rotation.TestCase
TestRotationOutOfSight = RotationOutOfSight.TestCase
TestRotationOutOfSight.settings = settings(max_examples=120, stateful_step_count=30)
TestRotation.settings = settings(max_examples=120, stateful_step_count=30)
