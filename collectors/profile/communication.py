"""torch_npu's communication.json and communication_matrix.json: waits, transfer sizes, links.

Both are `{step: {"p2p" | "collective": {operation: ...}}}`; times are in ms, sizes in MB of a million bytes.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

from collectors.profile.gathering import Gathering

LARGEST_BYTES = 32 * 1024 * 1024
"""JSON is read whole and takes many times its size in memory."""
TOTAL = "Total Op Info"
_KIND = re.compile(r"^([A-Za-z]+(?:_[A-Za-z]+)*)_*_\d")


class CommunicationError(Exception):
    """The file could not be read; the text says what and where."""


Json = dict[str, "Json"] | list["Json"] | str | float | int | bool | None


def load(path: Path) -> dict[str, Json]:
    """Read the file if it is of a size to be read; raises CommunicationError."""
    try:
        size = path.stat().st_size
        if size > LARGEST_BYTES:
            raise CommunicationError(
                f"{path}: {size} bytes; more than {LARGEST_BYTES} are not read from JSON; "
                "have the profiler write its DB form (export_type Db), which is read piece by piece"
            )
        found = json.loads(path.read_text(errors="replace"))
    except OSError as error:
        raise CommunicationError(f"{path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise CommunicationError(f"{path}: not whole JSON: {error}") from error
    if not isinstance(found, dict):
        raise CommunicationError(f"{path}: expected an object of steps")
    return found


def add_operations(steps: dict[str, Json], gathering: Gathering) -> tuple[int, int]:
    """Add communication.json; returns how many operations were added, and how many lacked a figure."""
    count = odd = 0
    for name, entry, _ in _operations(steps):
        if name == TOTAL:
            continue
        times = _part(entry, "Communication Time Info")
        values = [_number(times, f"{key} Time(ms)") for key in ("Elapse", "Transit", "Wait", "Idle")]
        elapse, transit, wait, idle = (value and value / 1e3 for value in values)
        if elapse is None or transit is None or wait is None or idle is None:
            odd += 1
            continue
        gathering.collective(kind_of(name), elapse, transit, wait, idle)
        count += 1
        for transport, info in _part(entry, "Communication Bandwidth Info").items():
            # SDMA is the sum of HCCS, PCIE and SIO, which are there too.
            if transport == "SDMA" or not isinstance(info, dict):
                continue
            for size, packets in _part(info, "Size Distribution").items():
                odd += not _add_packets(gathering, transport, size, packets)
    return count, odd


def _add_packets(gathering: Gathering, transport: str, size: str, packets: Json) -> bool:
    if not isinstance(packets, list) or len(packets) != 2:
        return False
    count, milliseconds = (_figure(value) for value in packets)
    try:
        megabytes = _figure(float(size))
    except ValueError:
        return False
    if count is None or milliseconds is None or megabytes is None:
        return False
    gathering.transfer(transport, int(count), megabytes * 1e6, milliseconds / 1e3)
    return True


def add_links(steps: dict[str, Json], gathering: Gathering) -> tuple[int, int]:
    """Add communication_matrix.json; returns how many entries were added, and how many lacked a figure."""
    count = odd = 0
    for name, entry, group in _operations(steps):
        # Where the sum of a group is given, its parts would count twice.
        if TOTAL in group and name != TOTAL:
            continue
        for pair, info in entry.items():
            ends = re.fullmatch(r"(\d{1,9})-(\d{1,9})", pair)
            if ends is None or not isinstance(info, dict):
                odd += 1
                continue
            size, milliseconds = _number(info, "Transit Size(MB)"), _number(info, "Transit Time(ms)")
            transport = info.get("Transport Type")
            if size is not None and milliseconds is not None and isinstance(transport, str):
                gathering.link(int(ends[1]), int(ends[2]), transport, size * 1e6, milliseconds / 1e3)
                count += 1
            else:
                odd += 1
    return count, odd


def kind_of(name: str) -> str:
    """The kind of an operation: `hcom_allReduce` of `hcom_allReduce__586_0_1@175...`."""
    match = _KIND.match(name)
    return match[1].rstrip("_") if match else name.partition("@")[0]


def _operations(steps: dict[str, Json]) -> list[tuple[str, dict[str, Json], dict[str, Json]]]:
    """Each operation's name, its entry, and the group it stands in."""
    found = []
    for step in steps.values():
        for group in step.values() if isinstance(step, dict) else ():
            if isinstance(group, dict):
                found += [(name, entry, group) for name, entry in group.items() if isinstance(entry, dict)]
    return found


def _part(entry: dict[str, Json], name: str) -> dict[str, Json]:
    part = entry.get(name)
    return part if isinstance(part, dict) else {}


def _number(entry: dict[str, Json], name: str) -> float | None:
    return _figure(entry.get(name))


def _figure(value: Json) -> float | None:
    """A finite number; JSON as Python writes it also has NaN, Infinity and whole numbers of any length."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None
