"""Real programs for the tests of what runs one, and how to wait for their end."""

from __future__ import annotations

import stat
import time
from collections.abc import Callable
from pathlib import Path


def program(folder: Path, body: str, name: str = "npu-smi") -> str:
    """An executable shell script, as a tool would stand in PATH."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
