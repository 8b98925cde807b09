"""vllm-ascend's lines on its own CPU binding, from the engine's log files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from collectors.host.binding import CpuBinding, parse_binding
from collectors.logs.find import Pattern, find_files

MAX_BYTES = 16 * 1024 * 1024
"""Of each log's beginning and as much of its end: the lines are written at the engine's start."""
MAX_FILES = 4
"""The logs written last."""


class BindingLog:
    """Reads the logs that the patterns name, anew when one of them was written to."""

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        self._patterns = tuple(patterns)
        self._read: dict[tuple[int, int], tuple[tuple[int, int], CpuBinding]] = {}

    def binding(self) -> CpuBinding:
        """What the newest log that says anything of binding says; no NPUs where none does."""
        files = sorted(find_files(self._patterns, []), key=lambda file: file.status[1])[-MAX_FILES:]
        for file in reversed(files):
            known = self._read.get(file.key)
            if known is None or known[0] != file.status:
                known = (file.status, parse_binding(_lines(file.path)))
                self._read[file.key] = known
            if known[1].npus:
                return known[1]
        return CpuBinding({})


def _lines(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            head = file.read(MAX_BYTES)
            size = file.seek(0, 2)
            file.seek(max(len(head), size - MAX_BYTES))
            data = head + file.read(MAX_BYTES)
    except OSError:
        return []  # the sources' health tells of logs that cannot be read
    return data.decode("utf-8", "replace").splitlines()
