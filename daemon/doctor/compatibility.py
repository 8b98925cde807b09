"""Which versions belong together: vllm-ascend's release table and CANN's drivers, held against what is installed.

Sources: vllm-ascend documentation, "Versioning policy", release compatibility matrix (0.7.3 to 0.23.0) and
"Installation" of 0.26.0rc1; CANN 8.5.0 release notes, "Mapping Between CANN and Driver Versions". A release that is not
in these tables is unknown, not wrong.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from daemon.doctor.finding import Finding

VERSIONS = "versions"


@dataclass(frozen=True, slots=True)
class Release:
    """One row of vllm-ascend's table: the versions it was released for."""

    vllm_ascend: str
    vllm: str
    cann: str
    torch: str
    torch_npu: str


RELEASES = (
    Release("0.7.3", "0.7.3", "8.1.RC1", "2.5.1", "2.5.1"),
    Release("0.7.3.post1", "0.7.3", "8.1.RC1", "2.5.1", "2.5.1"),
    Release("0.8.4rc2", "0.8.4", "8.0.0", "2.5.1", "2.5.1"),
    Release("0.8.5rc1", "0.8.5.post1", "8.1.RC1", "2.5.1", "2.5.1"),
    Release("0.9.0rc1", "0.9.0", "8.1.RC1", "2.5.1", "2.5.1"),
    Release("0.9.0rc2", "0.9.0", "8.1.RC1", "2.5.1", "2.5.1"),
    Release("0.9.1", "0.9.1", "8.2.RC1", "2.5.1", "2.5.1.post1"),
    Release("0.9.2rc1", "0.9.2", "8.1.RC1", "2.5.1", "2.5.1.post1.dev20250619"),
    Release("0.10.0rc1", "0.10.0", "8.2.RC1", "2.7.1", "2.7.1.dev20250724"),
    Release("0.10.1rc1", "0.10.1", "8.2.RC1", "2.7.1", "2.7.1.dev20250724"),
    Release("0.10.2rc1", "0.10.2", "8.2.RC1", "2.7.1", "2.7.1.dev20250724"),
    Release("0.11.0rc0", "0.11.0rc3", "8.2.RC1", "2.7.1", "2.7.1.dev20250724"),
    Release("0.11.0rc1", "0.11.0", "8.3.RC1", "2.7.1", "2.7.1"),
    Release("0.11.0rc2", "0.11.0", "8.3.RC2", "2.7.1", "2.7.1"),
    Release("0.11.0rc3", "0.11.0", "8.3.RC2", "2.7.1", "2.7.1.post1"),
    Release("0.11.0", "0.11.0", "8.3.RC2", "2.7.1", "2.7.1.post1"),
    Release("0.12.0rc1", "0.12.0", "8.3.RC2", "2.8.0", "2.8.0"),
    Release("0.13.0rc1", "0.13.0", "8.3.RC2", "2.8.0", "2.8.0"),
    Release("0.13.0rc2", "0.13.0", "8.5.0", "2.8.0", "2.8.0.post1"),
    Release("0.13.0rc3", "0.13.0", "8.5.1", "2.8.0", "2.8.0.post2"),
    Release("0.13.0", "0.13.0", "8.5.0", "2.8.0", "2.8.0.post2"),
    Release("0.14.0rc1", "0.14.1", "8.5.0", "2.9.0", "2.9.0"),
    Release("0.15.0rc1", "0.15.0", "8.5.0", "2.9.0", "2.9.0"),
    Release("0.17.0rc1", "0.17.0", "8.5.1", "2.9.0", "2.9.0"),
    Release("0.18.0rc1", "0.18.0", "8.5.1", "2.9.0", "2.9.0"),
    Release("0.18.0", "0.18.0", "8.5.1", "2.9.0", "2.9.0.post1"),
    Release("0.19.1rc1", "0.19.1", "8.5.1", "2.9.0", "2.9.0"),
    Release("0.20.2rc1", "0.20.2", "9.0.0", "2.10.0", "2.10.0"),
    Release("0.21.0rc1", "0.21.0", "9.0.0", "2.10.0", "2.10.0"),
    Release("0.22.1rc1", "0.22.1", "9.0.0", "2.10.0", "2.10.0"),
    Release("0.23.0rc1", "0.23.0", "9.0.1", "2.10.0", "2.10.0.post2"),
    Release("0.23.0", "0.23.0", "9.1.0", "2.10.0", "2.10.0.post4"),
    Release("0.26.0rc1", "0.26.0", "9.1.0", "2.10.0", "2.10.0.post4"),
)
DRIVERS: Mapping[str, tuple[str, ...]] = {"8.5": ("25.0", "25.2", "25.3", "25.5")}
"""Ascend HDK (driver) series that a CANN series was released for."""


def compatibility(installed: Mapping[str, str]) -> list[Finding]:
    """Hold what is installed against the tables; names as in the matrix, missing ones are not judged.

    `installed` maps `vllm-ascend`, `vLLM`, `torch`, `torch_npu`, `CANN`, `NNAL`, `driver` to versions.
    """
    rows = [_release(installed)] if "vllm-ascend" in installed else []
    driver = _driver(installed)
    pair = _nnal(installed)
    return [*rows, *([driver] if driver else []), *([pair] if pair else [])]


def _release(installed: Mapping[str, str]) -> Finding:
    mine = installed["vllm-ascend"]
    row = next((row for row in RELEASES if row.vllm_ascend == _public(mine)), None)
    if row is None:
        return Finding(
            VERSIONS,
            "release set",
            "unknown",
            f"vllm-ascend {mine} is not in the release table Trimtab knows",
            "hold it against the versioning policy page of vllm-ascend's documentation",
        )
    wanted = {"vLLM": row.vllm, "CANN": row.cann, "torch": row.torch, "torch_npu": row.torch_npu}
    wrong = [
        f"{name} {installed[name]} (released for {version})"
        for name, version in wanted.items()
        if name in installed and not _same(installed[name], version)
    ]
    unseen = [name for name in wanted if name not in installed]
    if wrong:
        return Finding(
            VERSIONS,
            "release set",
            "warn",
            f"vllm-ascend {mine} with {', '.join(wrong)}",
            "install the set that was released together, or know why not",
        )
    tail = f"; not seen here: {', '.join(unseen)}" if unseen else ""
    return Finding(VERSIONS, "release set", "ok", f"as vllm-ascend {mine} was released for{tail}")


def _driver(installed: Mapping[str, str]) -> Finding | None:
    cann, driver = installed.get("CANN"), installed.get("driver")
    if cann is None or driver is None:
        return None
    drivers = DRIVERS.get(_series(cann))
    if drivers is None:
        return Finding(
            VERSIONS,
            "driver for CANN",
            "unknown",
            f"driver {driver} with CANN {cann}: not in a table known here",
        )
    if _series(driver) in drivers:
        return Finding(VERSIONS, "driver for CANN", "ok", f"driver {driver} with CANN {cann}")
    return Finding(
        VERSIONS,
        "driver for CANN",
        "warn",
        f"driver {driver} with CANN {cann}, which was released for {', '.join(drivers)}",
        "install a driver of one of these series, with its firmware",
    )


def _nnal(installed: Mapping[str, str]) -> Finding | None:
    cann, nnal = installed.get("CANN"), installed.get("NNAL")
    if cann is None or nnal is None:
        return None
    if _same(nnal, cann):
        return Finding(VERSIONS, "NNAL for CANN", "ok", f"both {cann}")
    return Finding(
        VERSIONS,
        "NNAL for CANN",
        "warn",
        f"NNAL {nnal} with CANN {cann}",
        "install the NNAL of the same version",
    )


def _public(version: str) -> str:
    """A version without `v` before it and build marks behind it."""
    return version.strip().removeprefix("v").partition("+")[0]


def _same(installed: str, wanted: str) -> bool:
    return _public(installed).lower() == wanted.lower()


def _series(version: str) -> str:
    """The first two numbers: `25.5.1` and `25.5.rc2` are of `25.5`."""
    found = re.match(r"\d+\.\d+", _public(version))
    return found[0] if found else version
