"""Profiles written afresh in the shapes of msprof and torch_npu, with a test's own values."""

from __future__ import annotations

import csv
import json
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from collectors.profile.model import RankProfile
from collectors.profile.read import Reading, plan, read


def near(value: float) -> object:
    """Equal to a number up to rounding, also within a tuple."""
    return pytest.approx(value)


EPOCH_NS = 1_790_000_000_000_000_000


@dataclass(frozen=True)
class Run:
    """One device task: `start_us` counts from the profile's begin."""

    type: str
    start_us: float
    us: float
    core: str = "AI_CORE"
    inputs: str | None = "128,4096;4096,4096"
    outputs: str | None = "128,4096"
    mac: float | None = 0.8
    vec: float | None = 0.1
    mte2: float | None = 0.5
    name: str | None = None

    @property
    def label(self) -> str:
        return self.name or f"aclnn{self.type}_{self.type}"

    @property
    def communication(self) -> bool:
        return self.core in ("HCCL", "COMMUNICATION")


def stamp(us: float) -> str:
    """A timestamp as the profilers print it: microseconds, three decimals, a TAB."""
    at = EPOCH_NS + round(us * 1000)
    return f"{at // 1000}.{at % 1000:03d}\t"


def row(values: Iterable[object]) -> list[str]:
    return ["N/A" if value is None else str(value) for value in values]


def table(path: Path, headings: Sequence[str], rows: Iterable[Iterable[object]], end: str = "\r\n") -> Path:
    """Write a table; None is `N/A`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator=end)
        writer.writerow(headings)
        writer.writerows(row(values) for values in rows)
    return path


TORCH = (
    "Step Id", "Stream ID", "Task ID", "Name", "Type", "Accelerator Core", "Start Time(us)", "Duration(us)",
    "Input Shapes", "Output Shapes", "aic_mac_ratio", "aic_mte2_ratio", "aiv_vec_ratio", "aiv_mte2_ratio",
)  # fmt: skip
MSPROF = (
    "Device_id", "Stream ID", "Task ID", "Op Name", "OP Type", "Task Type", "Task Start Time(us)",
    "Task Duration(us)", "Input Shapes", "Output Shapes", "aic_mac_ratio", "aic_mte2_ratio", "aiv_vec_ratio",
    "aiv_mte2_ratio",
)  # fmt: skip
OLDER = (
    "Device_id", "Stream ID", "Task ID", "Op Name", "OP Type", "Task Type", "Task Start Time(us)",
    "Task Duration(us)", "Input Shapes", "Output Shapes", "mac_ratio", "mte2_ratio", "vec_ratio",
)  # fmt: skip


def quoted(shapes: str | None) -> str | None:
    return None if shapes is None else f'"{shapes}"'


def kernels(
    path: Path, runs: Sequence[Run], headings: Sequence[str] = TORCH, first: str = "5", end: str = "\r\n"
) -> Path:
    """kernel_details or op_summary; `first` is the step or the device."""
    rows = []
    for number, run in enumerate(runs):
        stream, task = (None, None) if run.communication else ("2", str(100 + number))
        cells: list[object] = [
            first, stream, task, run.label, run.type, run.core, stamp(run.start_us), run.us,
            quoted(run.inputs), quoted(run.outputs), run.mac, run.mte2, run.vec, run.mte2,
        ]  # fmt: skip
        rows.append(cells[: len(headings)])
    return table(path, headings, rows, end)


def steps(path: Path, computing: float, exposed: float, free: float, overlapped: float = 0.0) -> Path:
    """step_trace_time of one step, in microseconds."""
    return table(
        path,
        (
            "Step", "Computing", "Communication(Not Overlapped)", "Overlapped", "Communication", "Free", "Stage",
            "Bubble", "Communication(Not Overlapped and Exclude Receive)", "Preparing",
        ),
        [(7, computing, exposed, overlapped, exposed + overlapped, free, computing + exposed + free, 0, exposed, 1.5)],
    )  # fmt: skip


def communication(
    path: Path,
    waits_us: Sequence[float],
    transit_us: float = 40.0,
    packets: dict[str, list[float]] | None = None,
) -> Path:
    """communication.json with one all-reduce for each wait."""
    operations: dict[str, object] = {}
    for number, wait in enumerate(waits_us):
        operations[f"hcom_allReduce__77_{number}_1@901"] = {
            "Communication Time Info": {
                "Start Timestamp(us)": 1.0,
                "Elapse Time(ms)": (wait + transit_us) / 1e3,
                "Transit Time(ms)": transit_us / 1e3,
                "Wait Time(ms)": wait / 1e3,
                "Synchronization Time(ms)": 0.0,
                "Idle Time(ms)": 0.0,
            },
            "Communication Bandwidth Info": {
                "HCCS": {
                    "Transit Size(MB)": 1.0,
                    "Size Distribution": packets or {"2.5": [4, transit_us / 1e3]},
                },
                "SDMA": {
                    "Transit Size(MB)": 1.0,
                    "Size Distribution": packets or {"2.5": [4, transit_us / 1e3]},
                },
            },
        }
    total = {"Communication Time Info": {"Elapse Time(ms)": 999.0}, "Communication Bandwidth Info": {}}
    operations["Total Op Info"] = total
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"step7": {"p2p": {}, "collective": operations}}))
    return path


def matrix(path: Path, links: dict[str, tuple[str, float, float]]) -> Path:
    """communication_matrix.json: `0-1` to transport, megabytes, milliseconds."""
    entry = {
        pair: {
            "Transport Type": kind,
            "Transit Size(MB)": size,
            "Transit Time(ms)": taken,
            "Bandwidth(GB/s)": 0,
        }
        for pair, (kind, size, taken) in links.items()
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"step7": {"p2p": {}, "collective": {"allreduce-top1@901": entry}}}))
    return path


class Strings:
    """STRING_IDS as it is filled."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        return self.ids.setdefault(text, len(self.ids) + 10)


def database(path: Path, runs: Sequence[Run], rank: int = 0, *, pipes: bool = True) -> Path:
    """A profiler's database with the same tasks as `kernels` would write."""
    path.parent.mkdir(parents=True, exist_ok=True)
    strings = Strings()
    with closing(sqlite3.connect(path)) as base:
        base.executescript("""
            CREATE TABLE STRING_IDS (id INTEGER PRIMARY KEY, value TEXT);
            CREATE TABLE NPU_INFO (id INTEGER, name TEXT);
            CREATE TABLE RANK_DEVICE_MAP (rankId INTEGER, deviceId INTEGER);
            CREATE TABLE TASK (startNs INTEGER, endNs INTEGER, deviceId INTEGER, globalTaskId INTEGER,
                taskType INTEGER);
            CREATE TABLE COMPUTE_TASK_INFO (name INTEGER, globalTaskId INTEGER PRIMARY KEY, taskType INTEGER,
                opType INTEGER, inputShapes INTEGER, outputShapes INTEGER);
            CREATE TABLE COMMUNICATION_OP (opName INTEGER, startNs INTEGER, endNs INTEGER);
            CREATE TABLE TASK_PMU_INFO (globalTaskId INTEGER, name INTEGER, value NUMERIC);
        """)
        for number, run in enumerate(runs):
            start = EPOCH_NS + round(run.start_us * 1000)
            end = start + round(run.us * 1000)
            if run.communication:
                base.execute(
                    "INSERT INTO COMMUNICATION_OP VALUES (?, ?, ?)", (strings(run.label), start, end)
                )
                continue
            base.execute("INSERT INTO TASK VALUES (?, ?, 3, ?, ?)", (start, end, number, strings(run.core)))
            base.execute(
                "INSERT INTO COMPUTE_TASK_INFO VALUES (?, ?, ?, ?, ?, ?)",
                (
                    strings(run.label), number, strings(run.core), strings(run.type),
                    strings(run.inputs or "N/A"), strings(run.outputs or "N/A"),
                ),
            )  # fmt: skip
            for name, value in (
                ("aic_mac_ratio", run.mac), ("aiv_vec_ratio", run.vec), ("aic_mte2_ratio", run.mte2),
            ):  # fmt: skip
                if pipes and value is not None:
                    base.execute("INSERT INTO TASK_PMU_INFO VALUES (?, ?, ?)", (number, strings(name), value))
        base.execute("INSERT INTO NPU_INFO VALUES (3, 'Ascend910B3')")
        base.execute("INSERT INTO RANK_DEVICE_MAP VALUES (?, 3)", (rank,))
        base.executemany("INSERT INTO STRING_IDS VALUES (?, ?)", [(n, t) for t, n in strings.ids.items()])
        base.commit()
    return path


def run_after_run(runs: Iterable[Run], gap_us: float = 2.0) -> list[Run]:
    """The runs one after the other, in place of the start that each has."""
    placed = []
    at = 0.0
    for run in runs:
        placed.append(Run(**{**run.__dict__, "start_us": at}))
        at += run.us + gap_us
    return placed


def reading(*paths: Path) -> Reading:
    """What is read of some folders."""
    return read(plan(paths))


def only(path: Path) -> RankProfile:
    """The one profile that a folder holds."""
    (profile,) = reading(path).profiles
    return profile


MIXED = run_after_run(
    [
        Run("MatMulV2", 0, 100.0, mac=0.9, mte2=0.6),
        Run("MatMulV2", 0, 50.0, mac=0.2, mte2=0.7),
        Run("AddRmsNorm", 0, 10.5, core="AI_VECTOR_CORE", mac=None, vec=0.3, mte2=0.8, inputs="128,4096"),
        Run("hcom_allReduce_", 0, 40.0, core="HCCL", inputs=None, outputs=None, mac=None, vec=None, mte2=None,
            name="hcom_allReduce__77_0_1"),
        Run("Cast", 0, 5.0, core="AI_CPU", mac=None, vec=None, mte2=None),
    ],
    gap_us=60.0,
)  # fmt: skip
"""Two products, a norm, a collective and a task without measured pipes, 60 us apart: 165.5 us of computing."""
