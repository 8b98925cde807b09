"""The processes of a container as this host numbers them, where they can be seen and told from others."""

from __future__ import annotations

from pathlib import Path

import psutil

from change.server import ProcessMark
from daemon.process_mark import mark_of


def marks(pid: int, container_id: str) -> tuple[ProcessMark, ...]:
    """The container's main process and those below it; empty where `pid` is not seen to be the container's.

    A runtime on another host, or seen from another PID namespace, gives a number that here belongs to somebody
    else: a process counts only if the kernel says that its control group is the container's.
    """
    if pid <= 0 or not _is_of(pid, container_id):
        return ()
    try:
        main = psutil.Process(pid)
        family = [main, *main.children(recursive=True)]
    except psutil.Error:
        return ()
    return tuple(mark for process in family if (mark := mark_of(process)) is not None)


def _is_of(pid: int, container_id: str) -> bool:
    try:
        return container_id in Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return False
