"""What torch_npu's analysis.db sums up: steps in microseconds, communication in ms and MB of a million bytes."""

from __future__ import annotations

from collectors.profile.communication import TOTAL, kind_of
from collectors.profile.database_parts import Part
from collectors.profile.gathering import Gathering
from collectors.profile.model import Step
from collectors.profile.sqlite import Database, real, text, whole

STEP_COLUMNS = (
    "computing",
    "communication",
    "communication_not_overlapped",
    "overlapped",
    "free",
    "stage",
    "bubble",
    "preparing",
)


def _steps(database: Database, gathering: Gathering) -> None:
    columns = ", ".join(name if database.has("StepTraceTime", name) else "NULL" for name in STEP_COLUMNS)
    for name, *figures in database.rows(f"SELECT step, {columns} FROM StepTraceTime"):  # noqa: S608
        seconds = [None if (value := real(figure)) is None else value * 1e-6 for figure in figures]
        gathering.step(Step(text(name, ""), *seconds))


def _times(database: Database, gathering: Gathering) -> None:
    for name, *figures in database.rows(
        "SELECT hccl_op_name, elapse_time, transit_time, wait_time, idle_time FROM CommAnalyzerTime"
    ):
        elapse, transit, wait, idle = (real(figure) for figure in figures)
        if name != TOTAL and None not in (elapse, transit, wait, idle):
            gathering.collective(
                kind_of(text(name, "(no name)")),
                *((value or 0.0) / 1e3 for value in (elapse, transit, wait, idle)),
            )


def _sizes(database: Database, gathering: Gathering) -> None:
    if gathering.has_transfers:
        return
    for name, transport, size, count, duration in database.rows(
        "SELECT hccl_op_name, transport_type, package_size, count, total_duration FROM CommAnalyzerBandwidth"
    ):
        megabytes, milliseconds = real(size), real(duration)
        if name != TOTAL and transport != "SDMA" and megabytes and milliseconds is not None:
            gathering.transfer(text(transport, "unknown"), whole(count), megabytes * 1e6, milliseconds / 1e3)


def _matrix(database: Database, gathering: Gathering) -> None:
    if gathering.has_links:
        return
    for source, target, transport, size, duration in database.rows(
        "SELECT src_rank, dst_rank, transport_type, transit_size, transit_time FROM CommAnalyzerMatrix"
    ):
        megabytes, milliseconds = real(size), real(duration)
        if megabytes is not None and milliseconds is not None:
            gathering.link(
                whole(source), whole(target), text(transport, "unknown"), megabytes * 1e6, milliseconds / 1e3
            )


ANALYSIS_PARTS = (
    Part({"StepTraceTime": ("step", "computing", "free")}, _steps),
    Part(
        {"CommAnalyzerTime": ("hccl_op_name", "elapse_time", "transit_time", "wait_time", "idle_time")},
        _times,
    ),
    Part(
        {
            "CommAnalyzerBandwidth": (
                "hccl_op_name",
                "transport_type",
                "package_size",
                "count",
                "total_duration",
            )
        },
        _sizes,
    ),
    Part(
        {
            "CommAnalyzerMatrix": ("src_rank", "dst_rank", "transport_type", "transit_size", "transit_time"),
        },
        _matrix,
    ),
)
