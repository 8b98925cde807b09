"""The host: Trimtab, its Python, and the machine."""

from __future__ import annotations

import importlib.util
import os
import platform
from importlib.metadata import version

import psutil

from daemon.doctor.finding import Finding


def host() -> list[Finding]:
    """Trimtab, its Python, and the machine."""
    rows = [
        Finding(
            "host",
            "trimtab",
            "ok",
            f"{version('trimtab')} on Python {platform.python_version()}, "
            f"{platform.machine()}, kernel {platform.release()}",
        )
    ]
    cpus = len(os.sched_getaffinity(0))
    memory = psutil.virtual_memory()
    rows.append(
        Finding(
            "host",
            "processors",
            "ok",
            f"{cpus} of {psutil.cpu_count()} usable, {memory.total / 2**30:.0f} GiB memory",
        )
    )
    loaded = [name for name in ("torch", "vllm", "torch_npu") if importlib.util.find_spec(name) is not None]
    if loaded:
        rows.append(
            Finding(
                "host",
                "environment",
                "warn",
                f"Trimtab shares its environment with {', '.join(loaded)}",
                "install Trimtab into a venv of its own, so that neither changes the other's packages",
            )
        )
    return rows
