"""Starts `busy_program` and tells where its threads are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from collectors.host.files import SystemFiles
from collectors.host.nodes import read_nodes

PROGRAM = Path(__file__).parent / "busy_program.py"
NODES = read_nodes(SystemFiles()).by_number
NODE = min(NODES, default=-1)
HERE = (NODES[NODE].cpus or frozenset()) & os.sched_getaffinity(0) if NODES else frozenset()
"""The CPUs of the first node that a test may use."""
SPLIT = f"placement=split:{NODE}"


class Program:
    """The program, known by its process number."""

    def __init__(self, *words: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.tids: dict[str, int] = json.loads(self.process.stdout.readline())

    def cpus(self, name: str) -> set[int]:
        return os.sched_getaffinity(self.tids[name])

    def lasting(self) -> dict[int, frozenset[int]]:
        """The CPUs of the threads that last as long as the program."""
        tids = [self.process.pid, *self.tids.values()]
        return {tid: frozenset(os.sched_getaffinity(tid)) for tid in tids}

    def every(self) -> set[frozenset[int]]:
        """The CPUs of all threads there are now, the short-lived too."""
        found = set()
        for path in Path(f"/proc/{self.process.pid}/task").iterdir():
            try:
                found.add(frozenset(os.sched_getaffinity(int(path.name))))
            except ProcessLookupError:
                continue
        return found

    def end(self) -> None:
        self.process.communicate("")
