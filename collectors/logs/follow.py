"""Follows files while they are written, renamed, cut and replaced: every line once, in bounded pieces."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from collectors.logs.find import Found, Pattern, find_files, siblings
from collectors.logs.line import MAX_LINE, lines_of
from collectors.logs.position import Position, mark_at
from collectors.logs.rotation import holds, may_be_copy, moved, open_file, read_elsewhere, start, unreadable

PASS_BYTES = 1024 * 1024
"""Read in one pass over all files; what is left waits for the next one."""
FILE_BYTES = 256 * 1024
"""Read of one file in one pass, so that one flood does not starve the others."""
SKIP_BYTES = 256 * 1024 * 1024
"""Passed over in one pass while only the end of a far too long line is looked for."""
LONGEST_BACKLOG = 64 * 1024 * 1024
"""A file further behind than this is left behind: old lines are of less use than the present ones."""

Key = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Block:
    """Lines that were read of one file, bounded."""

    kind: str
    path: str
    lines: list[str]


@dataclass(slots=True)
class Reading:
    """What one pass gave.

    `notes` are things as they are (a file may not be read), `remarks` things that happened (a line was cut).
    `backlog` is what was not read yet, in bytes, by kind.
    """

    blocks: list[Block] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    backlog: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Former:
    """A position whose file is gone or no longer what it was, and what to say if no copy of it is found."""

    position: Position
    remark: str | None


class Follower:
    """Reads the files that `patterns` name.

    `positions` are those of an earlier follower, `followed` the globs it followed. Files of other globs that are
    there at the first pass are read from their present end on, since what stands in them is not news. Files that
    come later are read from their start.
    """

    def __init__(
        self,
        patterns: Sequence[Pattern],
        positions: Iterable[Position] = (),
        followed: Collection[str] = (),
    ) -> None:
        self._patterns = tuple(patterns)
        self._not_news = {pattern.glob for pattern in patterns} - set(followed)
        self._positions: dict[Key, Position] = {(p.device, p.inode): p for p in positions}
        self._statuses: dict[Key, tuple[int, int]] = {}
        self._turns: dict[Key, int] = {}
        self._turn = 0

    @property
    def positions(self) -> list[Position]:
        """How far each file was read; to be kept and given to the next follower."""
        return list(self._positions.values())

    def read(self) -> Reading:
        """Read once what is new; never raises for a file that cannot be read, but notes it."""
        reading = Reading()
        self._turn += 1
        files = {file.key: file for file in find_files(self._patterns, reading.notes)}
        former = self._find_renamed(files)
        former += self._check(files, reading)
        known = [file for key, file in files.items() if key in self._positions and not self._idle(file)]
        left = self._read_files(known, PASS_BYTES, reading)
        self._find_copies(files, former)
        new = [file for key, file in files.items() if key not in self._positions]
        new.sort(key=lambda file: len(file.path.name))  # what copies are made of before the copies
        for file in new:
            self._begin(file, former, reading)
        reading.remarks += [lost.remark for lost in former if lost.remark is not None]
        self._read_files([file for file in new if file.key in self._positions], left, reading)
        self._not_news.clear()
        self._turns = {key: turn for key, turn in self._turns.items() if key in self._positions}
        self._statuses = {key: status for key, status in self._statuses.items() if key in self._positions}
        return reading

    def _idle(self, file: Found) -> bool:
        """Whether nothing happened to a file that was read to its end."""
        return (
            self._statuses.get(file.key) == file.status and self._positions[file.key].offset == file.status[0]
        )

    def _find_renamed(self, files: dict[Key, Found]) -> list[_Former]:
        """Find the files that were read and now bear a name that no pattern has; gives those that are gone."""
        folders: dict[Path, dict[Key, Found] | None] = {}
        gone: list[_Former] = []
        for key, position in list(self._positions.items()):
            if key in files:
                continue
            real = _real(position)
            folder = Path(real.path).parent
            if folder not in folders:
                folders[folder] = siblings(folder, position.kind)
            present = folders[folder]
            if present is None:
                continue  # it may well be there, and be read on when the folder can be listed again
            if key in present:
                files[key] = replace(present[key], kind=position.kind)
                continue
            size, _ = self._statuses.get(key, (position.offset, 0))
            remark = f"{position.path}: removed before its last {size - position.offset} bytes were read"
            gone.append(_Former(real, remark if size > position.offset else None))
            del self._positions[key]
        return gone

    def _check(self, files: dict[Key, Found], reading: Reading) -> list[_Former]:
        """Give up the positions of files that were cut or overwritten, or whose number another file got."""
        cut: list[_Former] = []
        for key, file in files.items():
            if key not in self._positions or self._idle(file):
                continue
            position = self._positions[key]
            if position.offset == 0 and position.path != str(file.path):
                # Of a file of which nothing was read, nothing tells whether this is it: device and inode may be reused.
                del self._positions[key]
                continue
            if holds(file, position, reading.notes) is not False:
                self._positions[key] = moved(position, file)
                continue
            remark = f"{position.path}: was cut or overwritten; lines written just before may be lost"
            cut.append(_Former(_real(position), remark))
            del self._positions[key]
        return cut

    def _find_copies(self, files: dict[Key, Found], former: list[_Former]) -> None:
        """Add the copies that rotations made, where no pattern names them."""
        for lost in former:
            path = Path(lost.position.path)
            for key, copy in (siblings(path.parent, lost.position.kind) or {}).items():
                if (
                    key not in files
                    and lost.position.offset
                    and may_be_copy(copy, lost.position)
                    and holds(copy, lost.position, [])
                ):
                    files[key] = copy
                    break

    def _begin(self, file: Found, former: list[_Former], reading: Reading) -> None:
        """Take up a file that was not read before: from its start, or if it is a copy from where the other was read to.

        Of a file that is still there nothing is read in a copy, since all of it will be read in the file itself.
        """
        if file.glob in self._not_news:
            self._begin_at_end(file, reading)
            return
        for lost in former:
            if may_be_copy(file, lost.position) and lost.position.offset and holds(file, lost.position, []):
                self._positions[file.key] = moved(lost.position, file)
                lost.remark = None
                return
        for position in self._positions.values():
            if may_be_copy(file, position) and (read := read_elsewhere(file, position)) is not None:
                self._positions[file.key] = read
                return
        self._positions[file.key] = start(file)

    def _begin_at_end(self, file: Found, reading: Reading) -> None:
        descriptor = open_file(file, reading.notes)
        if descriptor is None:
            return
        try:
            size = os.fstat(descriptor).st_size
            last = os.pread(descriptor, 1, size - 1) if size else b"\n"
            position = start(file).model_copy(
                update={"offset": size, "mark": mark_at(descriptor, size), "skipping": last != b"\n"}
            )
            self._positions[file.key] = position
        except OSError as failure:
            reading.notes.append(unreadable(file, failure))
        finally:
            os.close(descriptor)

    def _read_files(self, files: Sequence[Found], budget: int, reading: Reading) -> int:
        """Read of each file in turn, those first that have waited longest; gives what is left of the budget."""
        for file in sorted(files, key=lambda file: self._turns.get(file.key, 0)):
            descriptor = open_file(file, reading.notes)
            if descriptor is None:
                continue
            try:
                budget -= self._read_one(descriptor, file, budget, reading)
            except OSError as failure:
                reading.notes.append(unreadable(file, failure))
            finally:
                os.close(descriptor)
        return budget

    def _read_one(self, descriptor: int, file: Found, budget: int, reading: Reading) -> int:
        status = os.fstat(descriptor)
        position = self._positions[file.key]
        self._statuses[file.key] = (status.st_size, status.st_mtime_ns)
        offset, skipping = position.offset, position.skipping
        behind = status.st_size - offset
        if behind > LONGEST_BACKLOG:
            offset, skipping = status.st_size - FILE_BYTES, True
            reading.remarks.append(
                f"{file.path}: {offset - position.offset} bytes passed over: written too fast"
            )
        if skipping:
            offset, skipping = _end_of_line(descriptor, offset)
        data = b""
        wanted = min(FILE_BYTES, budget)
        if behind > 0 and wanted > 0 and not skipping:
            data = os.pread(descriptor, wanted, offset)
            end = data.rfind(b"\n") + 1
            if end:
                self._turns[file.key] = self._turn
            if end == 0 and len(data) == FILE_BYTES:
                end, skipping = len(data), True  # no end of the line in sight: its start must do
            text = data[:end].decode(errors="backslashreplace")
            lines = [line for line in lines_of(text) if line]
            if lines:
                reading.blocks.append(Block(file.kind, str(file.path), lines))
            if skipping or any(len(line) == MAX_LINE for line in lines):
                reading.remarks.append(f"{file.path}: a line of over {MAX_LINE} characters was cut")
            offset += end
        if (offset, skipping) != (position.offset, position.skipping):
            self._positions[file.key] = position.model_copy(
                update={"offset": offset, "skipping": skipping, "mark": mark_at(descriptor, offset)}
            )
        left = max(0, status.st_size - offset)
        if left:
            reading.backlog[file.kind] = reading.backlog.get(file.kind, 0) + left
        return len(data)


def _real(position: Position) -> Position:
    """The position by the path its link leads to, beside which rotations leave theirs (/var/log/containers)."""
    return position.model_copy(update={"path": os.path.realpath(position.path)})


def _end_of_line(descriptor: int, offset: int) -> tuple[int, bool]:
    """Where the next line begins, and whether its start is still to be found."""
    for _ in range(SKIP_BYTES // FILE_BYTES):
        data = os.pread(descriptor, FILE_BYTES, offset)
        end = data.find(b"\n")
        if end >= 0:
            return offset + end + 1, False
        offset += len(data)
        if len(data) < FILE_BYTES:
            break
    return offset, True
