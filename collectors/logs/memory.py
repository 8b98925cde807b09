"""The figures in torch_npu's out-of-memory error.

`NPU out of memory. Tried to allocate 72.00 MiB (NPU 0; 61.27 GiB total capacity; 56.05 GiB already allocated;
56.05 GiB current active; 5.04 MiB free; 58.39 GiB reserved in total by PyTorch)`, as torch_npu's caching allocator
writes it; its allocator of workspaces writes `NPUWorkspaceAllocator tried to allocate 72.00 MiB(NPU 0; ...)`. The
units are powers of 1024, the figures are rounded to two decimals.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields

MARK = "NPU out of memory"

_SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,6})?) (bytes|KiB|MiB|GiB|TiB)\b")
_UNITS = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_REQUEST = re.compile(r"[Tt]ried to allocate ")
_DEVICE = re.compile(r"NPU (\d{1,6})\b")
_WORDS = {
    "total capacity": "capacity_bytes",
    "already allocated": "allocated_bytes",
    "current active": "active_bytes",
    "free": "free_bytes",
    "reserved in total": "reserved_bytes",
}


@dataclass(frozen=True, slots=True)
class OutOfMemory:
    """What the allocator said, in bytes; None for a figure that the line does not have.

    `device` is the number within the process, which is npu-smi's only where all devices are visible to it.
    """

    device: int | None = None
    requested_bytes: float | None = None
    capacity_bytes: float | None = None
    allocated_bytes: float | None = None
    active_bytes: float | None = None
    free_bytes: float | None = None
    reserved_bytes: float | None = None

    def figures(self) -> dict[str, float]:
        """The figures that are known, by name."""
        named = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "device"}
        return {name: value for name, value in named.items() if value is not None}


def parse_out_of_memory(text: str) -> OutOfMemory | None:
    """Read the figures of a line; None if it is not an allocator's out-of-memory error."""
    start = text.find(MARK)
    if start < 0:
        return None
    text = text[start:]
    found: dict[str, float] = {}
    if request := _REQUEST.search(text):
        _take(found, "requested_bytes", text[request.end() : request.end() + 40])
    inner = text.partition("(")[2].partition(")")[0]
    device: int | None = None
    for part in inner.split(";"):
        if number := _DEVICE.match(part.strip()):
            device = int(number[1])
        for words, name in _WORDS.items():
            if words in part:
                _take(found, name, part)
                break
    return OutOfMemory(device, **found)


def _take(found: dict[str, float], name: str, text: str) -> None:
    if size := _SIZE.match(text.strip()):
        found[name] = float(size[1]) * _UNITS[size[2]]
