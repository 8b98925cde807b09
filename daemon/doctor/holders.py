"""Who holds which NPU: the processes with a device file open, in which container, and whether their server is gone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from daemon.doctor.finding import Finding
from daemon.profile.msprof import npu_holders

CONTAINER = re.compile(r"(?<![0-9a-f])([0-9a-f]{12})[0-9a-f]{52}(?![0-9a-f])")
"""A container's id as Docker, containerd and CRI-O write it into the cgroup's path."""
ENGINE_NAMES = ("VLLM::", "EngineCore", "sglang::", "mindie")
INIT = 1


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that has NPUs open; `container` is the short id of its container, None outside of any."""

    pid: int
    name: str
    parent: int
    devices: tuple[int, ...]
    container: str | None

    @property
    def orphan(self) -> bool:
        """An engine's process whose server is gone: it holds HBM for nobody."""
        return self.parent == INIT and self.name.startswith(ENGINE_NAMES)


def holders(root: Path) -> list[Holder]:
    """The holders that this user can see, by process id."""
    folder = root / "proc"
    try:
        pids = sorted(int(path.name) for path in folder.iterdir() if path.name.isdecimal())
    except OSError:
        return []
    found: list[Holder] = []
    for pid, devices in npu_holders(pids, root).items():
        status = dict(_status(folder / str(pid)))
        parent = status.get("PPid", "")
        found.append(
            Holder(
                pid,
                status.get("Name", "?"),
                int(parent) if parent.isdecimal() else 0,
                devices,
                _container(folder / str(pid)),
            )
        )
    return found


def findings(root: Path) -> list[Finding]:
    """One row a holder, and what is in the way of seeing more."""
    cards = list((root / "dev").glob("davinci[0-9]*"))
    if not cards:
        return []
    found = holders(root)
    rows = [_row(holder) for holder in found]
    if not rows:
        rows.append(
            Finding(
                "devices",
                "holders",
                "unknown",
                "no process with an NPU open can be seen",
                "run as root and with the host's process ids (pid: host) to see who holds them",
            )
        )
    return rows


def _row(holder: Holder) -> Finding:
    where = f"container {holder.container}" if holder.container else "no container"
    devices = ", ".join(map(str, holder.devices))
    text = f"NPU {devices}: pid {holder.pid} ({holder.name}), {where}"
    if holder.orphan:
        return Finding(
            "devices",
            "holder",
            "warn",
            f"{text}, and its server is gone",
            f"if nothing of yours needs it, end process {holder.pid}: it holds the HBM that the next start wants",
        )
    return Finding("devices", "holder", "ok", text)


def _status(process: Path) -> list[tuple[str, str]]:
    try:
        lines = (process / "status").read_text(errors="replace").splitlines()
    except OSError:
        return []
    pairs = (line.partition(":") for line in lines)
    return [(key, value.strip()) for key, _, value in pairs]


def _container(process: Path) -> str | None:
    try:
        text = (process / "cgroup").read_text(errors="replace")
    except OSError:
        return None
    found = CONTAINER.search(text)
    return found[1] if found else None
