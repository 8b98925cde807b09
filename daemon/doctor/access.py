"""What this user may read and run of what the sources need, and whether the NPUs are whole or slices."""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from daemon.config import Config
from daemon.doctor.finding import Finding

FILES = (
    (
        "dev/kmsg",
        "kernel messages of the NPU driver",
        "run as root, or with CAP_SYSLOG where dmesg_restrict is 1",
    ),
    ("proc/interrupts", "the NPUs' interrupts", "mount the host's /proc"),
    ("sys/bus/pci/devices", "which node an NPU is near", "mount the host's /sys"),
)
SLICE_VARIABLES = ("ASCEND_VNPU_SPECS", "NPU_MEM_LIMIT", "ASCEND_RT_MEM_LIMIT")


def findings(config: Config, root: Path, environ: Mapping[str, str] = os.environ) -> list[Finding]:
    """What can be read and run here."""
    rows = [_file(root, *entry) for entry in FILES]
    rows.append(
        _tool(
            config.capture.msprof,
            "profiles (trimtab capture)",
            "source CANN's set_env.sh, or set capture.msprof",
        )
    )
    rows.append(
        _tool(
            config.collect.hccn.command,
            "the NPUs' network (hccn_tool)",
            "mount /usr/local/Ascend/driver/tools, or set collect.hccn.command",
        )
    )
    rows.append(_dcmi(config.collect.dcmi.library))
    slices = _slices(root, environ)
    return [*rows, *([slices] if slices else [])]


def _file(root: Path, place: str, what: str, mend: str) -> Finding:
    path = root / place
    if not path.exists():
        return Finding("permissions", what, "unknown", f"no /{place} here")
    if os.access(path, os.R_OK):
        return Finding("permissions", what, "ok", f"/{place} can be read")
    return Finding("permissions", what, "warn", f"/{place} cannot be read", mend)


def _tool(command: str, what: str, mend: str) -> Finding:
    found = shutil.which(command)
    if found is None:
        return Finding("permissions", what, "unknown", f"no {command} on PATH", mend)
    return Finding("permissions", what, "ok", found)


def _dcmi(library: Path) -> Finding:
    what = "throttle reasons (DCMI)"
    if not library.exists():
        mend = "mount /usr/local/dcmi, or set collect.dcmi.library; npu-smi has no throttle reasons"
        return Finding("permissions", what, "unknown", f"no {library} here", mend)
    try:
        ctypes.CDLL(str(library))
    except OSError as error:
        mend = "put the driver's lib64 folders on LD_LIBRARY_PATH before Trimtab starts"
        return Finding("permissions", what, "warn", f"{library} cannot be loaded: {error}", mend)
    return Finding("permissions", what, "ok", f"{library} loads")


def _slices(root: Path, environ: Mapping[str, str]) -> Finding | None:
    virtual = sorted(path.name for path in (root / "dev").glob("vdavinci[0-9]*"))
    limits = [name for name in SLICE_VARIABLES if environ.get(name)]
    if not virtual and not limits:
        return None
    what = ", ".join([*virtual, *limits])
    return Finding(
        "devices",
        "slices",
        "warn",
        f"sliced NPUs (vNPU or a memory limit): {what}",
        "AICore use reads 0 or is unknown on a slice, and the host's settings are not its own to change",
    )
