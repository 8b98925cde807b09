"""Versions of the Ascend software and of the engine, from the files that installers leave."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

MAX_BYTES = 256 * 1024
PACKAGES = ("torch", "torch-npu", "vllm-ascend", "vllm", "sglang")
"""Python packages whose versions must fit together, as their metadata names them."""

CONFIGURATION_FILES = ("/etc/hccn.conf", "/etc/npu.conf")
"""The NPUs' network, which RoCE needs; and a file that some guides name and no known release installs."""

INSTALL_INFO = "/etc/ascend_install.info"
ASCEND = "/usr/local/Ascend"

_VERSION = re.compile(r"^\s*version\s*=\s*\[?(?:[\w.]+:)?([\w.+-]+)\]?\s*$", re.IGNORECASE | re.MULTILINE)
_PACKAGE = re.compile(r"^\s*package_version\s*=\s*([\w.+-]+)\s*$", re.IGNORECASE | re.MULTILINE)
_RUNNING = re.compile(
    r"^\s*(?:toolkit|runtime)_(?:running|installed)_version\s*=\s*\[(?:[\w.]+:)?([\w.+-]+)\]\s*$",
    re.IGNORECASE | re.MULTILINE,
)
_LIBRARY = re.compile(r"^\s*Ascend-cann-atb\s*:\s*(\S+)\s*$", re.MULTILINE)
_DRIVER_PATH = re.compile(r"^\s*Driver_Install_Path_Param\s*=\s*(/\S*)\s*$", re.MULTILINE)
_FIELD = re.compile(r"^(Name|Version):\s*(\S+)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Version:
    """One component. `number` is None where it is not known, and `why` then says so; `path` is what was read.

    `package` is the number of the release that carries it, where the file gives one (firmware counts its own).
    """

    component: str
    number: str | None
    path: str | None = None
    package: str | None = None
    why: str | None = None


def parse_version_info(text: str) -> str | None:
    """The version in a `version.info`, an `*_install.info` or a `version.cfg` of Ascend; None if it has none."""
    for pattern in (_VERSION, _RUNNING, _LIBRARY):
        match = pattern.search(text)
        if match is not None:
            return match[1]
    return None


def parse_metadata(text: str) -> tuple[str, str] | None:
    """Name (in its normal form) and version in a package's METADATA; None if one of them is missing."""
    # The fields end at the first empty line; a long description follows.
    fields = dict(_FIELD.findall(text.partition("\n\n")[0]))
    if "Name" not in fields or "Version" not in fields:
        return None
    return normal_name(fields["Name"]), fields["Version"]


def normal_name(name: str) -> str:
    """A package's name as the Python packaging rules compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read_versions(root: Path = Path("/"), site_packages: Sequence[Path] = ()) -> list[Version]:
    """Driver, firmware, CANN, NNAL, and the engine's packages, in this order.

    `root` may be another file system, such as `/proc/PID/root` of an engine in a container; `site_packages` are
    folders within it, each as an absolute path.
    """
    driver = _driver_folder(root)
    found = [
        _from_files("driver", root, (f"{driver}/driver/version.info",)),
        _from_files("firmware", root, (f"{driver}/firmware/version.info", f"{ASCEND}/firmware/version.info")),
        _from_files(
            "CANN",
            root,
            (
                f"{ASCEND}/cann/*-linux/ascend_toolkit_install.info",
                f"{ASCEND}/ascend-toolkit/latest/*-linux/ascend_toolkit_install.info",
                f"{ASCEND}/ascend-toolkit/latest/version.cfg",
            ),
        ),
        _from_files("NNAL", root, (f"{ASCEND}/nnal/atb/latest/version.info",)),
    ]
    return found + [_package(name, root, site_packages) for name in PACKAGES]


def _driver_folder(root: Path) -> str:
    text, _ = _text(_inside(root, INSTALL_INFO))
    match = _DRIVER_PATH.search(text or "")
    return match[1].rstrip("/") if match is not None else ASCEND


def _from_files(component: str, root: Path, patterns: Sequence[str]) -> Version:
    why = f"no {patterns[0]} to be seen"
    for pattern in patterns:
        for path in sorted(root.glob(pattern.lstrip("/"))):
            shown = "/" + str(path.relative_to(root))
            text, failed = _text(path)
            if text is None:
                if failed is not None:
                    why = f"{shown}: {failed}"
                continue
            number = parse_version_info(text)
            if number is not None:
                package = _PACKAGE.search(text)
                return Version(component, number, shown, package[1] if package is not None else None)
            why = f"{shown} names no version"
    return Version(component, None, why=why)


def _package(name: str, root: Path, folders: Sequence[Path]) -> Version:
    if not folders:
        return Version(name, None, why="the engine's site-packages folder is not known")
    for folder in folders:
        # The folder is named by the package as it was written once: vllm_ascend, torch_npu.
        for path in sorted(
            root.glob(f"{folder}/{name.replace('-', '[-_.]')}-*.dist-info/METADATA".lstrip("/"))
        ):
            text, failed = _text(path)
            found = parse_metadata(text) if text is not None else None
            shown = "/" + str(path.relative_to(root))
            if found is not None and found[0] == name:
                return Version(name, found[1], shown)
            if failed is not None:
                return Version(name, None, why=f"{shown}: {failed}")
    return Version(name, None, why=f"not in {', '.join(str(folder) for folder in folders)}")


def _inside(root: Path, path: str) -> Path:
    return root / path.lstrip("/")


def _text(path: Path) -> tuple[str | None, str | None]:
    """What is written there, or why not; both are None where nothing is."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES).decode("utf-8", "backslashreplace"), None
    except FileNotFoundError:
        return None, None
    except OSError as failure:
        return None, failure.strerror


def present(root: Path, paths: Sequence[str] = CONFIGURATION_FILES) -> dict[str, bool]:
    """Which of these configuration files there are."""
    return {path: _inside(root, path).exists() for path in paths}
