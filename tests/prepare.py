"""Gets what the tests need from outside the project's own environment, and writes down what could not be had.

Run as `python tests/prepare.py` (standard library only): the Debian programs, when this is root on a machine
with apt-get, and a real vLLM server in an environment of its own. With TRIMTAB_NO_SKIP=1 anything missing is
an error; otherwise the reason is kept in `.cache/unavailable.json`, and the test run names it at its end.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UNAVAILABLE = ROOT / ".cache" / "unavailable.json"

PROGRAMS = {
    "promtool": "prometheus",
    "prometheus": "prometheus",
    "alertmanager": "prometheus-alertmanager",
    "amtool": "prometheus-alertmanager",
    "chromium": "chromium",
    "openssl": "openssl",
    "cc": "build-essential",
    "dockerd": "docker.io",
    "busybox": "busybox-static",
}
"""Program to the Debian package that brings it; Debian calls alertmanager prometheus-alertmanager."""

REAL_SETUP = ROOT / "tests" / "real" / "setup_vllm.py"


def find_program(name: str) -> str | None:
    """Where a program of `PROGRAMS` is, under its own name or the one Debian gives it."""
    return shutil.which(name) or shutil.which(f"prometheus-{name}")


def skipping_forbidden() -> bool:
    """Whether TRIMTAB_NO_SKIP asks for a failure where something is missing."""
    return os.environ.get("TRIMTAB_NO_SKIP", "") not in ("", "0")


@contextmanager
def _services_stay_off() -> Iterator[None]:
    """Keep Debian from starting the packages' servers: the tests want the programs, on ports of their own."""
    policy = Path("/usr/sbin/policy-rc.d")
    if policy.exists():
        yield
        return
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    try:
        yield
    finally:
        policy.unlink()


def debian() -> str | None:
    """Install the missing Debian packages; the answer says why not, or is None."""
    missing = sorted({package for program, package in PROGRAMS.items() if find_program(program) is None})
    if not missing:
        return None
    what = "Debian packages " + ", ".join(missing) + " are missing"
    if shutil.which("apt-get") is None:
        return f"{what}: this machine has no apt-get"
    if os.geteuid() != 0:
        return f"{what}: not root; apt-get install --no-install-recommends {' '.join(missing)} brings them"
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with _services_stay_off():
        for command in (
            ["apt-get", "update", "-q"],
            ["apt-get", "install", "-q", "-y", "--no-install-recommends", *missing],
        ):
            if (
                subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, check=False).returncode
                != 0
            ):
                return f"{what}: {' '.join(command[:2])} failed, see its messages above"
    return None


def real() -> str | None:
    """Set up the real vLLM server; the answer says why not, or is None."""
    done = subprocess.run([sys.executable, str(REAL_SETUP)], stdin=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        return f"{REAL_SETUP.relative_to(ROOT)} could not set up the real vLLM, see its messages above"
    return None


def main() -> int:
    """Prepare both, tell, and return the exit code."""
    reasons = {
        name: reason for name, reason in (("debian", debian()), ("real", real())) if reason is not None
    }
    UNAVAILABLE.parent.mkdir(exist_ok=True)
    UNAVAILABLE.write_text(json.dumps(reasons, indent=2) + "\n")
    for reason in reasons.values():
        sys.stderr.write(f"prepare: {reason}\n")
    return 1 if reasons and skipping_forbidden() else 0


if __name__ == "__main__":
    sys.exit(main())
