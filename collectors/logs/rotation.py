"""Tells whether a file still is what was read, and which file is a copy that a rotation made of another."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import replace
from pathlib import Path

from collectors.logs.find import Found
from collectors.logs.position import EMPTY_MARK, Position, mark_at


def start(file: Found) -> Position:
    """The beginning of a file."""
    return Position(
        kind=file.kind,
        path=str(file.path),
        device=file.key[0],
        inode=file.key[1],
        offset=0,
        mark=EMPTY_MARK,
    )


def moved(position: Position, file: Found) -> Position:
    """The same place in a file of another name or in a copy."""
    return position.model_copy(update={"path": str(file.path), "device": file.key[0], "inode": file.key[1]})


def may_be_copy(file: Found, position: Position) -> bool:
    """Whether a file's name is one that a rotation gives to copies of the position's file."""
    original = Path(position.path)
    return (
        original.parent == file.path.parent
        and len(file.path.name) > len(original.name)
        and file.path.name.startswith(original.name.split(".")[0])
    )


def read_elsewhere(copy: Found, position: Position) -> Position | None:
    """The end of a file that is the beginning of the position's file; None if it is not."""
    original = replace(copy, path=Path(position.path), key=(position.device, position.inode))
    descriptor, other = open_file(copy, []), open_file(original, [])
    try:
        if descriptor is None or other is None:
            return None
        size = os.fstat(descriptor).st_size
        mark = mark_at(descriptor, size)
        if size == 0 or mark_at(other, size) != mark:
            return None
        return start(copy).model_copy(update={"offset": size, "mark": mark})
    except OSError:
        return None
    finally:
        for opened in (descriptor, other):
            if opened is not None:
                os.close(opened)


def holds(file: Found, position: Position, notes: list[str]) -> bool | None:
    """Whether a file begins with what was read up to a position; None, and a note, if it cannot be read."""
    descriptor = open_file(file, notes)
    if descriptor is None:
        return None
    try:
        return mark_at(descriptor, position.offset) == position.mark
    except OSError as failure:
        notes.append(unreadable(file, failure))
        return None
    finally:
        os.close(descriptor)


def unreadable(file: Found, failure: OSError) -> str:
    mend = "; let the daemon's user read it" if failure.errno == errno.EACCES else ""
    return f"{file.path}: cannot be read: {failure.strerror}{mend}"


def open_file(file: Found, notes: list[str]) -> int | None:
    """A descriptor of just that file, or None and a note; a name that was given to another file gives None."""
    try:
        # Without waiting: the name may by now belong to a pipe.
        descriptor = os.open(file.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as failure:
        note = unreadable(file, failure)
        if failure.errno != errno.ENOENT and note not in notes:
            notes.append(note)
        return None
    status = os.fstat(descriptor)
    if (status.st_dev, status.st_ino) == file.key and stat.S_ISREG(status.st_mode):
        return descriptor
    os.close(descriptor)
    return None
