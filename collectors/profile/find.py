"""What lies in a folder: the captures of msprof and torch_npu, wherever below it they are.

Layouts: `PROF_*/mindstudio_profiler_output` with `PROF_*/msprof_*.db` (msprof), `*_ascend_pt/ASCEND_PROFILER_OUTPUT`
(torch_npu), or a folder that holds the tables themselves.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from collectors.profile.model import Form

DEEPEST = 8
MOST_FOLDERS = 20_000

TABLES = re.compile(
    r"^(kernel_details|op_summary|op_statistic|step_trace_time|api_statistic|operator_details|memory_record"
    r"|npu_module_mem|l2_cache|hbm|task_time)(_.*)?\.csv$|^communication(_matrix)?\.json$"
)
DATABASES = re.compile(
    r"^(ascend_pytorch_profiler|ascend_mindspore_profiler|msprof)(_.*)?\.db$|^analysis\.db$"
)
ANALYSIS = "analysis.db"
_RANK = re.compile(r"(?:^|[_-])rank[_-]?(\d+)$", re.IGNORECASE)
_INFO = re.compile(r"^profiler_info_(\d+)\.json$")
_DATABASE_RANK = re.compile(r"^ascend_\w+_profiler_(\d+)\.db$")
_EXPORT = re.compile(r"^([a-z_]*?[a-z])(?:_slice_\d+)?(?:_\d{1,6})*_(\d{12,})\.(?:csv|db)$")
_DEVICE = re.compile(r"^device_(\d+)$")
_RAW = re.compile(r"^(PROF_\d+_\w+|.*_ascend_(pt|ms))$")


@dataclass(frozen=True, slots=True)
class Capture:
    """The files of one capture in one form, and the rank or device that the layout tells."""

    source: Path
    form: Form
    files: tuple[Path, ...]
    rank: int | None = None
    device: str | None = None
    instead: Capture | None = None
    """The same capture in the other form, for when this one cannot be read."""


@dataclass(slots=True)
class Found:
    """The captures below the folders asked for, and notes of what else was seen there."""

    captures: list[Capture] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def find(path: Path) -> Found:
    """Look for captures in a folder, or take the one file that `path` names."""
    found = Found()
    try:
        if path.is_file():
            _one_file(path, found)
        elif path.is_dir():
            _walk(path, found)
        else:
            found.notes.append(f"{path}: there is no such file or folder")
    except OSError as error:
        found.notes.append(f"{path}: {error.strerror or error}")
    if not found.captures and not found.notes:
        found.notes.append(
            f"{path}: holds no profile: expected kernel_details.csv, op_summary_*.csv, "
            "ascend_pytorch_profiler_*.db or msprof_*.db, in this folder or below it"
        )
    return found


def _one_file(path: Path, found: Found) -> None:
    if TABLES.match(path.name) or DATABASES.match(path.name):
        form: Form = "db" if path.suffix == ".db" else "text"
        found.captures.append(Capture(path, form, (path,), _rank(path.parent, [path.name])))
    else:
        found.notes.append(
            f"{path}: not a table or database that msprof or torch_npu writes; name its folder"
        )


def _walk(top: Path, found: Found) -> None:
    def refused(error: OSError) -> None:
        found.notes.append(f"{error.filename}: {error.strerror or error}")

    for seen, (folder, inner, names) in enumerate(os.walk(top, onerror=refused)):
        here = Path(folder)
        if seen >= MOST_FOLDERS:
            found.notes.append(f"{top}: more than {MOST_FOLDERS} folders; the rest was not looked at")
            return
        inner.sort()
        if len(here.relative_to(top).parts) >= DEEPEST:
            inner.clear()
        try:
            taken = _captures(here, names, inner, found.notes)
        except OSError as error:
            refused(error)
            continue
        if taken:
            found.captures += taken
        elif _RAW.match(here.name) and (note := _raw(here, inner)):
            found.notes.append(note)
        if "ASCEND_PROFILER_OUTPUT" in inner:
            inner[:] = ["ASCEND_PROFILER_OUTPUT"]  # the PROF_* beside it is the same capture, raw
        if "mindstudio_profiler_output" in inner:
            inner.clear()


def _captures(here: Path, names: list[str], inner: list[str], notes: list[str]) -> list[Capture]:
    tables = [here / name for name in names if TABLES.match(name)]
    if "mindstudio_profiler_output" in inner:
        inside = (here / "mindstudio_profiler_output").iterdir()
        tables = [path for path in inside if TABLES.match(path.name)] or tables
    tables = _newest(tables, notes)
    databases = _newest([here / name for name in names if DATABASES.match(name)], notes)
    devices = [match[1] for name in inner if (match := _DEVICE.match(name))]
    device = devices[0] if len(devices) == 1 else None
    main = [path for path in databases if path.name != ANALYSIS]
    if len(main) > 1:
        # Several ranks' databases were put together; analysis.db is of one of them, and nobody knows of which.
        if len(main) < len(databases):
            notes.append(f"{here / ANALYSIS}: left out, since it is not known to which database it belongs")
        return [Capture(path, "db", (path,), _rank_of_name(path.name)) for path in main]
    rank = _rank(here, names)
    text = Capture(here, "text", tuple(tables), rank, device) if tables else None
    if text and databases and not main:
        notes.append(f"{here / ANALYSIS}: left out, since it only sums up and the tables beside it tell more")
        return [text]
    if databases:
        return [Capture(here, "db", tuple(databases), rank, device, text)]
    return [text] if text else []


def _newest(paths: list[Path], notes: list[str]) -> list[Path]:
    """The files in order of their numbers, without those of older exports: msprof exports anew beside the old ones."""
    stamps: dict[str, set[str]] = defaultdict(set)
    for path in paths:
        if match := _EXPORT.match(path.name):
            stamps[match[1]].add(match[2])
    kept = []
    for path in sorted(paths, key=lambda path: _numeric(path.name)):
        match = _EXPORT.match(path.name)
        if match is None or match[2] == max(stamps[match[1]]):
            kept.append(path)
        else:
            notes.append(f"{path}: left out, there is a newer export of the same")
    return kept


def _raw(here: Path, inner: list[str]) -> str | None:
    if {"ASCEND_PROFILER_OUTPUT", "mindstudio_profiler_output"} & set(inner):
        return None
    if here.name.startswith("PROF_"):
        return f"{here}: raw data only; export it first: msprof --export=on --output={here}"
    return (
        f"{here}: raw data only; analyse it first: "
        f"python -c \"from torch_npu.profiler.profiler import analyse; analyse('{here}')\""
    )


def _rank(here: Path, names: list[str]) -> int | None:
    beside = [*names]
    if here.name == "ASCEND_PROFILER_OUTPUT":
        beside += [path.name for path in here.parent.iterdir()]
    for name in beside:
        if match := _INFO.match(name):
            return int(match[1])
    told = [rank for name in beside if (rank := _rank_of_name(name)) is not None]
    if told:
        return told[0]
    match = _RANK.search(here.name)
    return int(match[1]) if match else None


def _rank_of_name(name: str) -> int | None:
    """The rank that a torch_npu database is named after."""
    match = _DATABASE_RANK.match(name)
    return int(match[1]) if match else None


def _numeric(name: str) -> tuple[str | int, ...]:
    """Sorts `x_slice_10` after `x_slice_2`: text and numbers take turns."""
    return tuple(int(part) if i % 2 else part for i, part in enumerate(re.split(r"(\d+)", name)))
