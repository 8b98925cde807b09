"""Reads /etc/npu.conf where it exists and holds its huge page and DMA buffer keys against what the kernel has.

No release known to us ships the file; field guides name it. Its form is taken to be `key = value` lines. It is
never written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from collectors.host.files import SystemFiles

PATH = "/etc/npu.conf"
_LINE = re.compile(r"^\s*([A-Za-z][\w.-]{0,60})\s*[=:]\s*(.*?)\s*(?:[#;].*)?$")
_HUGE = re.compile(r"huge_?-?pages?", re.IGNORECASE)
_BUFFER = re.compile(r"dma.*buf|buf.*dma", re.IGNORECASE)
_SIZE = re.compile(r"(\d{1,15})\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
_MEMORY = re.compile(r"^(\w+):\s+(\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ConfKey:
    """One key of the file: `verdict` says whether it agrees with the host, `text` why."""

    key: str
    value: str
    verdict: Literal["agrees", "differs", "unknown"]
    text: str


def read_npu_conf(files: SystemFiles) -> list[ConfKey] | None:
    """Its keys of interest, None where there is no such file."""
    text = files.text(PATH)
    if text is None:
        return None
    memory = {key: int(value) for key, value in _MEMORY.findall(files.text("/proc/meminfo") or "")}
    found = []
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        key, value = match[1], match[2].strip("\"'")
        if _BUFFER.search(key):
            found.append(_buffer(key, value, memory.get("MemTotal")))
        elif _HUGE.search(key):
            found.append(_huge_pages(key, value, memory.get("HugePages_Total")))
    return found


def _huge_pages(key: str, value: str, there: int | None) -> ConfKey:
    if not value.isdecimal():
        return ConfKey(key, value, "unknown", "no number of pages: what it switches is not known")
    if there is None:
        return ConfKey(key, value, "unknown", "/proc/meminfo shows no HugePages_Total")
    if int(value) == there:
        return ConfKey(key, value, "agrees", f"the kernel has {there} huge pages")
    return ConfKey(
        key, value, "differs", f"the kernel has {there} huge pages: set hugepages, or correct the file"
    )


def _buffer(key: str, value: str, total_kb: int | None) -> ConfKey:
    match = _SIZE.fullmatch(value)
    if match is None:
        return ConfKey(key, value, "unknown", "no size")
    size = int(match[1]) * _UNITS[match[2].lower()]
    if total_kb is not None and size > total_kb * 1024:
        return ConfKey(
            key, value, "differs", f"{size / 1e9:.1f} GB is more than the host's {total_kb / 1e6:.1f} GB"
        )
    return ConfKey(key, value, "unknown", f"{size} bytes; nothing on the host shows what the driver took")
