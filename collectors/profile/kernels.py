"""The tables of single device tasks, kernel_details (torch_npu) and op_summary (msprof)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from collectors.profile.gathering import Gathering, Kernel
from collectors.profile.hits import Hits
from collectors.profile.table import Columns, Row, Table

KERNELS: Columns = {
    "device": ("Device_id", "Device ID"),
    "type": ("OP Type", "Type"),
    "core": ("Task Type", "Accelerator Core"),
    "name": ("Op Name", "Name"),
    "start": ("Task Start Time", "Start Time"),
    "seconds": ("Task Duration", "Duration"),
    "inputs": ("Input Shapes",),
    "outputs": ("Output Shapes",),
    "stream": ("Stream ID",),
    "task": ("Task ID",),
    "mac": ("aic_mac_ratio", "mac_ratio", "aic_cube_ratio", "cube_ratio"),
    "vec": ("aiv_vec_ratio", "vec_ratio", "aic_vec_ratio"),
    "mte2_cube": ("aic_mte2_ratio", "mte2_ratio"),
    "mte2_vector": ("aiv_mte2_ratio",),
}
WIDEST_HEAD = 576
"""A last dimension up to this is a head: the input is tokens by heads by head size."""


def add_kernels(
    path: Path,
    device: Callable[[str | None], Gathering],
    hits: Hits,
    progress: Callable[[int], None],
    notes: list[str],
) -> None:
    """Add a table's tasks to their devices; raises TableError."""
    table = Table(path, KERNELS, ("type", "seconds"), progress)
    odd = 0
    for row in table:
        task = kernel(row)
        if task is None:
            odd += 1
            continue
        gathering = device(row.text("device"))
        gathering.kernel(task)
        if hits:
            hits.give(
                gathering, row.text("device"), row.text("stream"), row.text("task"), task.name, rows_of(task)
            )
    if odd:
        notes.append(f"{path}: {odd} rows without a type or a duration were left out")
    notes += table.notes


def kernel(row: Row) -> Kernel | None:
    """One task; None if the row has no type or duration."""
    seconds = row.number("seconds")
    name = row.text("name")
    type_ = row.text("type") or name
    if seconds is None or seconds < 0 or type_ is None:
        return None
    cube, vector = row.number("mte2_cube"), row.number("mte2_vector")
    return Kernel(
        type_,
        row.text("core") or "",
        name or type_,
        row.nanoseconds("start"),
        seconds,
        row.text("inputs"),
        row.text("outputs"),
        row.number("mac"),
        row.number("vec"),
        cube if vector is None else vector if cube is None else max(cube, vector),
    )


def rows_of(task: Kernel) -> int | None:
    """How many tokens a task worked on: the rows of its first input; None where the shape does not tell.

    Products and norms have their tokens in all dimensions but the last one. Attention has them in the first one
    (tokens, heads, head size) or the first two (batch, length, hidden size).
    """
    if task.inputs is None:
        return None
    attention = "Attention" in task.type
    if not attention and "Norm" not in task.type and "mul" not in task.type.lower():
        return None
    try:
        shape = [int(size) for size in task.inputs.partition(";")[0].strip('"').split(",")]
    except ValueError:
        return None
    if len(shape) == 2 or (attention and len(shape) == 3 and shape[2] <= WIDEST_HEAD):
        return shape[0]
    return shape[0] * shape[1] if len(shape) == 3 else None
