"""The doctor tells what the ends of the logs say, and what to look at."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from collectors.logs.tails import MOST_FILES, TAIL_BYTES
from daemon.config import Config
from daemon.doctor import logs
from daemon.doctor.finding import Finding

MEMORY = "RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB (NPU 0; 60.00 GiB total capacity)\n"
LOST = "        Device[6] lost heartbeat.[FUNC:SyncTask][FILE:engine.cc][LINE:40]\n"


def look(folder: Path, **values: Any) -> list[Finding]:
    settings = {"ascend_dir": str(folder / "ascend"), "engine": [str(folder / "*.log")], **values}
    return asyncio.run(logs.findings(Config.model_validate({"collect": {"logs": settings}})))


def test_errors_are_counted_with_their_cause_and_the_gravest_come_first(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("all is well\n" + MEMORY * 2)
    (tmp_path / "b.log").write_text(MEMORY + LOST)
    lost, memory = look(tmp_path)
    assert (lost.name, lost.verdict) == ("device_heartbeat_lost", "warn")
    assert "(playbook device_lost)" in lost.mend
    assert memory.name == "npu_out_of_memory"
    assert memory.found.startswith("3 times, torch_npu's allocator could not get device memory; first in ")


def test_only_the_end_of_a_file_of_the_last_day_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(MEMORY + "x" * TAIL_BYTES + MEMORY + "all is well\n")
    (tmp_path / "old.log").write_text(MEMORY)
    os.utime(tmp_path / "old.log", (1.7e9, 1.7e9))
    (row,) = look(tmp_path)
    assert (row.name, row.verdict, row.found) == (
        "events",
        "ok",
        "no error in the ends of 1 files of the last day",
    )


def test_what_was_not_looked_at_is_unknown(tmp_path: Path) -> None:
    (row,) = look(tmp_path)
    assert (row.verdict, row.mend) == ("unknown", "name the engine's own: collect.logs.engine")
    assert [row.verdict for row in look(tmp_path, enabled=False)] == ["unknown"]
    (row, _) = look(tmp_path, engine=[str(tmp_path / "gone.log")])
    assert (row.name, row.verdict) == ("files", "unknown")
    assert "gone.log" in row.found
    for number in range(MOST_FILES + 1):
        (tmp_path / f"{number}.log").write_text("all is well\n")
    assert any(f"only the {MOST_FILES} written last" in row.found for row in look(tmp_path))
