"""What is read from the tables of a profiler's database: times are nanoseconds, sizes bytes, names STRING_IDS.

The schema is msprof's (MindStudio, `msprof_db`); which tables exist depends on the version and on the capture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from collectors.profile.communication import kind_of
from collectors.profile.gathering import Gathering, Kernel
from collectors.profile.model import Bandwidth
from collectors.profile.sqlite import Database, integer, real, text, whole

PIPES = {
    "mac": ("aic_mac_ratio", "mac_ratio", "aic_cube_ratio"),
    "vec": ("aiv_vec_ratio", "vec_ratio"),
    "mte2": ("aic_mte2_ratio", "mte2_ratio", "aiv_mte2_ratio"),
}
COMMUNICATION = "HCCL"
NO_RANK = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Part:
    """One thing to read, and the tables with their columns that it needs."""

    needs: Mapping[str, tuple[str, ...]]
    add: Callable[[Database, Gathering], None]


def _identity(database: Database, gathering: Gathering) -> None:
    pairs = list(database.rows("SELECT rankId, deviceId FROM RANK_DEVICE_MAP LIMIT 2"))
    if len(pairs) == 1:
        rank, device = integer(pairs[0][0]), integer(pairs[0][1])
        # msprof alone knows no ranks and writes -1.
        gathering.rank = rank if rank is not None and rank >= 0 else gathering.rank
        gathering.device = gathering.device if device is None else str(device)


def _chip(database: Database, gathering: Gathering) -> None:
    names = {str(name) for (name,) in database.rows("SELECT DISTINCT name FROM NPU_INFO")}
    gathering.chip = names.pop() if len(names) == 1 else None


def _kernels(database: Database, gathering: Gathering) -> None:
    has_pipes = database.has("TASK_PMU_INFO", "globalTaskId", "name", "value")
    pipes = ", ".join(
        f"MAX(CASE WHEN name IN ({database.numbers(*names)}) THEN value END) AS {pipe}"
        for pipe, names in PIPES.items()
    )
    wanted = database.numbers(*(name for names in PIPES.values() for name in names))
    measured = f"""WITH measured AS (
        SELECT globalTaskId, {pipes} FROM TASK_PMU_INFO WHERE name IN ({wanted}) GROUP BY globalTaskId
    )"""  # noqa: S608 - our own words and whole numbers only
    communication = """
        UNION ALL SELECT startNs, endNs, opName, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1
        FROM COMMUNICATION_OP"""
    rows = database.rows(f"""{measured if has_pipes else ""}
        SELECT k.startNs, k.endNs, n.value, y.value, c.value, i.value, o.value, mac, vec, mte2, apart FROM (
            SELECT t.startNs, t.endNs, name, opType, c.taskType, inputShapes, outputShapes,
                   {"mac, vec, mte2" if has_pipes else "NULL AS mac, NULL AS vec, NULL AS mte2"}, 0 AS apart
            FROM COMPUTE_TASK_INFO c JOIN TASK t ON t.globalTaskId = c.globalTaskId
            {"LEFT JOIN measured m ON m.globalTaskId = c.globalTaskId" if has_pipes else ""}
            {communication if database.has("COMMUNICATION_OP", "startNs", "endNs", "opName") else ""}
        ) k
        LEFT JOIN STRING_IDS n ON n.id = k.name
        LEFT JOIN STRING_IDS y ON y.id = k.opType
        LEFT JOIN STRING_IDS c ON c.id = k.taskType
        LEFT JOIN STRING_IDS i ON i.id = k.inputShapes
        LEFT JOIN STRING_IDS o ON o.id = k.outputShapes
        ORDER BY k.startNs""")  # noqa: S608 - our own words and whole numbers only
    odd = 0
    for began, ended, label, type_, core, inputs, outputs, mac, vec, mte2, apart in rows:
        start, end = integer(began), integer(ended)
        if start is None or end is None:
            odd += 1
            continue
        name = text(label, "(no name)")
        gathering.kernel(
            Kernel(
                kind_of(name) if apart else text(type_, name),
                COMMUNICATION if apart else text(core, ""),
                name,
                start,
                max(end - start, 0) * 1e-9,
                _shapes(inputs),
                _shapes(outputs),
                real(mac),
                real(vec),
                real(mte2),
            )
        )
    _left_out(database, "TASK, COMMUNICATION_OP", odd)


def _left_out(database: Database, tables: str, odd: int) -> None:
    if odd:
        database.notes.append(f"{database.path}: {tables}: {odd} rows without a time were left out")


def _shapes(value: object) -> str | None:
    shapes = text(value, "N/A").strip('"')
    return None if shapes in ("", "N/A") else shapes


def _copies(database: Database, gathering: Gathering) -> None:
    sized = database.has("MEMCPY_INFO", "globalTaskId", "size", "memcpyOperation")
    named = sized and database.has("ENUM_MEMCPY_OPERATION", "id", "name")
    rows = database.rows(f"""
        SELECT t.endNs - t.startNs, {"m.size" if sized else "NULL"}, {"e.name" if named else "NULL"}
        FROM TASK t JOIN STRING_IDS s ON s.id = t.taskType
        {"LEFT JOIN MEMCPY_INFO m ON m.globalTaskId = t.globalTaskId" if sized else ""}
        {"LEFT JOIN ENUM_MEMCPY_OPERATION e ON e.id = m.memcpyOperation" if named else ""}
        WHERE s.value LIKE '%MEMCPY%'""")  # noqa: S608 - our own words only
    odd = 0
    for duration, size, direction in rows:
        took, length = integer(duration), real(size)
        if took is None:
            odd += 1
            continue
        seconds = max(took, 0) * 1e-9
        gathering.copy(text(direction, "unknown"), seconds, length)
        if length:
            gathering.transfer(f"copy {text(direction, 'unknown')}", 1, length, seconds)
    _left_out(database, "TASK (copies)", odd)


def _transfers(database: Database, gathering: Gathering) -> None:
    named = database.has("ENUM_HCCL_LINK_TYPE", "id", "name")
    rows = database.rows(f"""
        SELECT c.srcRank, c.dstRank, e.{"name" if named else "value"}, c.size, t.endNs - t.startNs
        FROM COMMUNICATION_TASK_INFO c JOIN TASK t ON t.globalTaskId = c.globalTaskId
        LEFT JOIN {"ENUM_HCCL_LINK_TYPE" if named else "STRING_IDS"} e ON e.id = c.linkType
        WHERE c.size > 0 AND c.dstRank NOT IN ({NO_RANK}, -1)""")  # noqa: S608 - our own words only
    odd = 0
    for origin, end, link, size, duration in rows:
        source, target, took, length = integer(origin), integer(end), integer(duration), real(size)
        if source is None or target is None or took is None or length is None:
            odd += 1
            continue
        transport, seconds = text(link, "unknown"), max(took, 0) * 1e-9
        gathering.link(source, target, transport, length, seconds)
        if source != target:
            gathering.transfer(transport, 1, length, seconds)
    _left_out(database, "COMMUNICATION_TASK_INFO", odd)


def _apis(database: Database, gathering: Gathering) -> None:
    named = database.has("ENUM_API_TYPE", "id", "name")
    rows = database.rows(f"""
        SELECT {"e.name" if named else "a.type"}, s.value,
               COUNT(a.endNs - a.startNs), SUM(a.endNs - a.startNs), MAX(a.endNs - a.startNs), COUNT(*)
        FROM CANN_API a LEFT JOIN STRING_IDS s ON s.id = a.name
        {"LEFT JOIN ENUM_API_TYPE e ON e.id = a.type" if named else ""}
        GROUP BY 1, 2""")  # noqa: S608 - our own words only
    odd = 0
    for level, name, count, total, longest, number in rows:
        timed = whole(count)
        odd += whole(number) - timed
        if timed:
            gathering.api(
                text(level, ""), text(name, "(no name)"), timed, whole(total) * 1e-9, whole(longest) * 1e-9
            )
    _left_out(database, "CANN_API", odd)


def _memory_record(database: Database, gathering: Gathering) -> None:
    rows = database.rows(
        "SELECT s.value, timestamp, totalAllocated, totalReserved FROM MEMORY_RECORD "
        "LEFT JOIN STRING_IDS s ON s.id = component"
    )
    _memory(
        database,
        gathering,
        "MEMORY_RECORD",
        ((text(name, "(no name)"), time, real(held), real(reserved)) for name, time, held, reserved in rows),
    )


def _memory(
    database: Database,
    gathering: Gathering,
    table: str,
    rows: Iterable[tuple[str, object, float | None, float | None]],
) -> None:
    odd = 0
    for name, time, allocated, reserved in rows:
        at = integer(time)
        if at is None:
            odd += 1
        else:
            gathering.memory(name, at, allocated, reserved)
    _left_out(database, table, odd)


def _memory_of_the_device(database: Database, gathering: Gathering) -> None:
    rows = database.rows(
        "SELECT s.value, timestampNs, hbm, ddr FROM NPU_MEM LEFT JOIN STRING_IDS s ON s.id = type"
    )
    _memory(
        database,
        gathering,
        "NPU_MEM",
        (
            (text(name, "(no name)").upper(), time, None, real(hbm) or real(ddr))
            for name, time, hbm, ddr in rows
        ),
    )


def _memory_of_modules(database: Database, gathering: Gathering) -> None:
    rows = database.rows(
        "SELECT e.name, timestampNs, totalReserved FROM NPU_MODULE_MEM "
        "LEFT JOIN ENUM_MODULE e ON e.id = moduleId"
    )
    _memory(
        database,
        gathering,
        "NPU_MODULE_MEM",
        (
            (f"{text(name, '(no name)')} (module)", time, None, real(reserved))
            for name, time, reserved in rows
        ),
    )


def _hbm(database: Database, gathering: Gathering) -> None:
    """Samples come for each memory unit and direction; at one time they add up."""
    rows = list(
        database.rows("""
        SELECT AVG(read), AVG(write), MAX(read + write) FROM (
            SELECT SUM(CASE WHEN s.value = 'read' THEN bandwidth ELSE 0 END) AS read,
                   SUM(CASE WHEN s.value = 'write' THEN bandwidth ELSE 0 END) AS write
            FROM HBM JOIN STRING_IDS s ON s.id = type WHERE s.value IN ('read', 'write') GROUP BY timestampNs
        )""")
    )
    read, write, peak = (real(value) for value in rows[0])
    if read is not None and write is not None:
        gathering.bandwidth(Bandwidth(read, write, peak))


def _cache(database: Database, gathering: Gathering) -> None:
    """The last-level cache is the L2; a sample counts by the traffic it stands for."""
    rows = list(database.rows("SELECT SUM(hitRate * throughput) / SUM(throughput), COUNT(*) FROM LLC"))
    ratio, count = real(rows[0][0]), whole(rows[0][1])
    if ratio is not None:
        gathering.hit(ratio / 100, None, count)


PARTS = (
    Part({"RANK_DEVICE_MAP": ("rankId", "deviceId")}, _identity),
    Part({"NPU_INFO": ("name",)}, _chip),
    Part(
        {
            "COMPUTE_TASK_INFO": (
                "name",
                "globalTaskId",
                "taskType",
                "opType",
                "inputShapes",
                "outputShapes",
            ),
            "TASK": ("startNs", "endNs", "globalTaskId"),
            "STRING_IDS": ("id", "value"),
        },
        _kernels,
    ),
    Part({"TASK": ("startNs", "endNs", "taskType", "globalTaskId"), "STRING_IDS": ("id", "value")}, _copies),
    Part(
        {
            "COMMUNICATION_TASK_INFO": ("globalTaskId", "srcRank", "dstRank", "size", "linkType"),
            "TASK": ("startNs", "endNs", "globalTaskId"),
            "STRING_IDS": ("id", "value"),
        },
        _transfers,
    ),
    Part(
        {"CANN_API": ("startNs", "endNs", "type", "name"), "STRING_IDS": ("id", "value")},
        _apis,
    ),
    Part(
        {
            "MEMORY_RECORD": ("component", "timestamp", "totalAllocated", "totalReserved"),
            "STRING_IDS": ("id", "value"),
        },
        _memory_record,
    ),
    Part(
        {"NPU_MEM": ("type", "ddr", "hbm", "timestampNs"), "STRING_IDS": ("id", "value")},
        _memory_of_the_device,
    ),
    Part(
        {"NPU_MODULE_MEM": ("moduleId", "timestampNs", "totalReserved"), "ENUM_MODULE": ("id", "name")},
        _memory_of_modules,
    ),
    Part({"HBM": ("timestampNs", "bandwidth", "type"), "STRING_IDS": ("id", "value")}, _hbm),
    Part({"LLC": ("hitRate", "throughput")}, _cache),
)
