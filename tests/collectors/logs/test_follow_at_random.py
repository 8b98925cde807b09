"""A log that is written, rotated in every way, cut and read, in any order: each line once, or it is said."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from collectors.logs.find import Pattern
from collectors.logs.follow import Follower, Reading
from collectors.logs.position import Positions


def lines(reading: Reading) -> list[str]:
    return [line for block in reading.blocks for line in block.lines]


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


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
