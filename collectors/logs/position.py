"""How far every log was read, kept over a restart in one small file."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

HEAD_BYTES = 1024
TAIL_BYTES = 256


class Position(BaseModel):
    """How far one file was read.

    The file is known by `device` and `inode`, so that it is found again under another name. `mark` is a hash of its
    first bytes and of those just before `offset`: a file that does not have them there is another one, or was cut.
    `skipping` says that `offset` is within a line of which no more is wanted.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    kind: str
    path: str
    device: int
    inode: int
    offset: int
    mark: str
    skipping: bool = False


class Positions(BaseModel):
    """All that is kept: what was followed, the files, the kernel's last record of one boot, the journal's cursor."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    version: int = 1
    followed: list[str] = []
    files: list[Position] = []
    boot_id: str | None = None
    kernel_seq: int | None = None
    journal_cursor: str | None = None


def mark_at(descriptor: int, offset: int) -> str:
    """The mark of an open file at an offset; a file too short for it has another mark than it had."""
    head = os.pread(descriptor, min(HEAD_BYTES, offset), 0)
    tail = os.pread(descriptor, min(TAIL_BYTES, offset), max(0, offset - TAIL_BYTES))
    return hashlib.sha256(b"%d:" % offset + head + b":" + tail).hexdigest()[:32]


EMPTY_MARK = hashlib.sha256(b"0::").hexdigest()[:32]
"""The mark of any file at its start."""


def load(path: Path) -> Positions | None:
    """What was kept; None if nothing was. Raises ValueError, with the path, for a file that cannot be used."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as failure:
        raise ValueError(f"{path}: cannot be read: {failure}") from failure
    try:
        found = Positions.model_validate_json(text)
    except ValidationError as failure:
        raise ValueError(f"{path}: is damaged ({failure.error_count()} errors)") from failure
    if found.version != 1:
        raise ValueError(f"{path}: version {found.version} was written by a newer Trimtab")
    return found


def save(path: Path, positions: Positions) -> None:
    """Write all of it or nothing; raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)  # readable by the owner only
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(positions.model_dump_json())
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
