"""A folder of evidence: texts without secrets, bounded in size, and a small summary in JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from daemon.doctor.bundle import Redactor
from daemon.profile.folders import forget_old, new_folder

MOST_FILE_BYTES = 512 * 1024
SUMMARY = "summary.json"
KEPT_FOLDERS = 50
FOLDER = "playbooks"
"""Below the recordings, so that small evidence does not push out large profiles."""


def write_evidence(
    captures: Path,
    kind: str,
    texts: Mapping[str, str],
    summary: Mapping[str, Any],
    redactor: Redactor,
    now: float,
) -> tuple[Path, int]:
    """Write the texts by file name, and the summary; returns the folder and how many bytes it takes.

    Of a text that is too long the end is kept. Raises `ProfilerError` or `OSError`.
    """
    folder = new_folder(captures / FOLDER, kind, now)
    size = 0
    for name, text in {**texts, SUMMARY: json.dumps(dict(summary), indent=2) + "\n"}.items():
        body = redactor.clean(text).encode(errors="replace")[-MOST_FILE_BYTES:]
        handle = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(body)
        size += len(body)
    forget_old(captures / FOLDER, KEPT_FOLDERS)
    return folder, size
