"""The folders that recordings are kept in: how large they are, and how long they stay."""

from __future__ import annotations

import os
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path

from change.profiler import ProfilerError

_NAME = re.compile(r"\d{8}T\d{6}\.\d{3}-[a-z-]+")


def new_folder(captures: Path, way: str, now: float) -> Path:
    """Make the folder of one recording (mode 0700), named after its time (UTC) and way; raises `ProfilerError`."""
    stamp = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%S.%f")[:-3]
    folder = captures / f"{stamp}-{way}"
    try:
        captures.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise ProfilerError(f"{folder} cannot be made: {error.strerror}; set capture.folder") from error
    return folder


def forget_old(captures: Path, keep: int) -> list[Path]:
    """Remove all but the newest `keep` recordings; returns what was removed. Anything else there is left alone."""
    try:
        kept = sorted(path for path in captures.iterdir() if _NAME.fullmatch(path.name) and path.is_dir())
    except FileNotFoundError:
        return []
    old = kept[:-keep] if keep else kept
    for folder in old:
        shutil.rmtree(folder, ignore_errors=True)
    return [folder for folder in old if not folder.exists()]


def size_of(path: Path) -> int:
    """Bytes of a file, or of the files in a folder; what vanishes meanwhile counts nothing, links are not followed."""
    if not path.is_dir() or path.is_symlink():
        return _file_size(path)
    return sum(
        _file_size(Path(folder, name))
        for folder, _, names in os.walk(path, followlinks=False)
        for name in names
    )


def _file_size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def free_bytes(path: Path) -> int:
    """Free space for this user where `path` is or will be; raises `ProfilerError`."""
    try:
        return shutil.disk_usage(next(place for place in (path, *path.parents) if place.exists())).free
    except (OSError, StopIteration) as error:
        raise ProfilerError(f"{path}: its free space cannot be read ({error})") from error
