"""The host, and the versions of what Ascend software is installed on it."""

from __future__ import annotations

import importlib.util
import os
import platform
from importlib.metadata import version
from pathlib import Path

import psutil

from daemon.doctor.finding import Finding

_VERSION_FILES = (
    ("driver", "usr/local/Ascend/driver/version.info"),
    ("firmware", "usr/local/Ascend/firmware/version.info"),
    ("CANN toolkit", "usr/local/Ascend/ascend-toolkit/latest/version.cfg"),
    ("NNAL", "usr/local/Ascend/nnal/atb/latest/version.info"),
)


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


def ascend(root: Path) -> list[Finding]:
    """Driver, firmware and CANN, from the files their installers leave."""
    rows: list[Finding] = []
    for name, place in _VERSION_FILES:
        path = root / place
        try:
            text = path.read_text(errors="replace")
        except FileNotFoundError:
            rows.append(Finding("versions", name, "unknown", f"no /{place} here"))
            continue
        except OSError as error:
            rows.append(
                Finding(
                    "versions", name, "unknown", f"/{place}: {error.strerror}", "let this user read the file"
                )
            )
            continue
        number = _version_in(text)
        if number is None:
            rows.append(Finding("versions", name, "unknown", f"/{place} names no version"))
        else:
            rows.append(Finding("versions", name, "ok", number))
    return rows


def _version_in(text: str) -> str | None:
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals and key.strip().lower() in (
            "version",
            "runtime_running_version",
            "toolkit_running_version",
        ):
            return value.strip().strip("[]").split(":")[-1] or None
    return None
