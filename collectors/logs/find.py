"""Which files the patterns of the configuration name."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

MAX_FILES = 1000
"""Files that are followed; with more, the ones written last."""

_PACKED = (".gz", ".bz2", ".xz", ".zst", ".zip", ".tar")


@dataclass(frozen=True, slots=True)
class Pattern:
    """A path or glob (`~`, `*`, `?`, `[...]`, `**`) and what kind of log its files are."""

    kind: str
    glob: str


@dataclass(frozen=True, slots=True)
class Found:
    """A file: its kind and present path, what stays its own when it is renamed, and what changes when it is written.

    `key` is device and inode, `status` size in bytes and the time of the last writing in nanoseconds, `glob` the
    pattern that named it, None for a file that was found otherwise.
    """

    kind: str
    path: Path
    key: tuple[int, int]
    status: tuple[int, int]
    glob: str | None = None


def _found(kind: str, path: Path, status: os.stat_result, pattern: str | None = None) -> Found:
    key = (status.st_dev, status.st_ino)
    return Found(kind, path, key, (status.st_size, status.st_mtime_ns), pattern)


def find_files(patterns: Sequence[Pattern], notes: list[str]) -> list[Found]:
    """The regular files that the patterns name, each once, in their order; notes say what could not be looked at.

    A glob without files is nothing to note: not every host has every log. A plain path without a file is.
    """
    found: dict[tuple[int, int], Found] = {}
    for pattern in patterns:
        for path in _expanded(pattern.glob, notes):
            if path.name.endswith(_PACKED):
                continue
            try:
                status = path.stat()
            except FileNotFoundError:
                continue  # gone meanwhile, or noted already
            except OSError as failure:
                notes.append(f"{path}: cannot be looked at: {failure.strerror}")
                continue
            if stat.S_ISREG(status.st_mode):
                file = _found(pattern.kind, path, status, pattern.glob)
                found.setdefault(file.key, file)
            elif not glob.has_magic(pattern.glob):
                notes.append(f"{path}: is no file that can be followed")
    if len(found) <= MAX_FILES:
        return list(found.values())
    notes.append(f"{len(found)} log files: only the {MAX_FILES} written last are followed")
    return sorted(found.values(), key=lambda file: file.status[1])[-MAX_FILES:]


def _expanded(pattern: str, notes: list[str]) -> Iterator[Path]:
    path = Path(pattern).expanduser()
    parts = path.parts
    plain = next((index for index, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    if plain == len(parts):
        if not os.path.lexists(path):
            notes.append(f"{path}: is not there")
        yield path
        return
    folder = Path(*parts[:plain])
    if folder.is_dir() and not os.access(folder, os.R_OK | os.X_OK):
        notes.append(f"{folder}: cannot be listed: permission denied; let the daemon's user read it")
        return
    yield from sorted(folder.glob(str(Path(*parts[plain:]))))


def siblings(folder: Path, kind: str) -> dict[tuple[int, int], Found] | None:
    """The regular files of a folder by device and inode; none for a folder that is gone, None if nobody can tell."""
    found: dict[tuple[int, int], Found] = {}
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_file(follow_symlinks=False) and not entry.name.endswith(_PACKED):
                    file = _found(kind, Path(entry.path), entry.stat(follow_symlinks=False))
                    found[file.key] = file
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError:
        return None
    return found
