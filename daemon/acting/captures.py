"""The captures of a playbook: a profile, the Ascend logs, the kernel's log, the memory of the engine's processes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

from change.lock import LockError
from change.profiler import Capture, ProfilerError
from collectors.blocking import Blocking
from collectors.host.files import SystemFiles
from collectors.host.tree import EngineTree
from collectors.logs.find import Pattern
from collectors.sample import CollectorError
from daemon.acting.evidence import write_evidence
from daemon.acting.looks import Look, kernel_tail, log_tails, process_memory
from daemon.doctor.bundle import Redactor
from daemon.errors import UserError
from rules.actions import CaptureKind, Outcome

LEAST_SECONDS = 1.0
MOST_SECONDS = 300.0
LOOK_SECONDS = 20.0
"""Longest wait for a reading that should take a second: a file system of the logs may be dead."""

TakeProfile = Callable[[float], Awaitable[Capture]]


class Npus(Protocol):
    """What npu-smi prints."""

    async def __call__(self) -> str:
        """The table of the cards and of the processes on them; raises `CollectorError`."""
        ...


class Captures:
    """Takes them one at a time; nothing is changed, but a profile makes the engine slower for its time.

    A profile has its turn from whoever asks for it: what only reads does not wait minutes for the end of one.
    """

    def __init__(
        self,
        folder: Path,
        redactor: Redactor,
        *,
        profile: TakeProfile,
        patterns: Callable[[], list[Pattern]],
        kmsg: Path | None,
        engine_pid: Callable[[], int | None],
        npus: Npus | None = None,
        root: Path = Path("/"),
    ) -> None:
        """`profile` records for so many seconds; `patterns` name the logs, `kmsg` the kernel's, None where not read."""
        self._folder = folder
        self._redactor = redactor
        self._profile = profile
        self._patterns = patterns
        self._kmsg = kmsg
        self._tree = EngineTree(engine_pid)
        self._npus = npus
        self._root = root
        self._reading: Blocking[Look] = Blocking("playbook-capture", "is a file system of the logs dead?")
        self._turn = asyncio.Lock()

    async def take(self, kind: CaptureKind, seconds: float, now: float) -> Outcome:
        """Record evidence; `seconds` is for how long a profile records."""
        if kind == "msprof":
            return await self._msprof(min(max(seconds, LEAST_SECONDS), MOST_SECONDS))
        async with self._turn:
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    look = await self._look(kind, now)
                folder, size = await asyncio.to_thread(self._write, kind, look, now)
            except TimeoutError:
                return Outcome(False, f"{kind} could not be read within {LOOK_SECONDS:g} s")
            except (CollectorError, ProfilerError, OSError) as error:
                return Outcome(False, f"{kind} could not be taken: {error}")
        figures = {**look.figures, "folder": str(folder), "size_bytes": size, "notes": look.notes[:10]}
        if not look.texts:
            return Outcome(False, f"nothing of {kind} could be read: {'; '.join(look.notes[:3])}", figures)
        return Outcome(True, f"{kind} is in {folder}", figures)

    async def _msprof(self, seconds: float) -> Outcome:
        try:
            taken = await self._profile(seconds)
        except (ProfilerError, LockError, UserError, CollectorError, OSError) as error:
            return Outcome(False, f"no profile was recorded: {error}")
        figures = {
            "way": taken.way,
            "folders": [str(path) for path in taken.folders],
            "folder": str(taken.folders[0]) if taken.folders else None,
            "seconds": round(taken.seconds, 3),
            "size_bytes": taken.size_bytes,
            "notes": list(taken.notes),
        }
        return Outcome(True, f"{taken.way} recorded {taken.seconds:.1f} s into {figures['folder']}", figures)

    async def _look(self, kind: CaptureKind, now: float) -> Look:
        match kind:
            case "plog":
                patterns = self._patterns()
                return await self._reading.run(lambda: log_tails(patterns, now))
            case "dmesg":
                return await self._reading.run(lambda: kernel_tail(self._kmsg))
            case _:
                look = await self._reading.run(self._memory)
                await self._add_npus(look)
                return look

    def _memory(self) -> Look:
        files = SystemFiles(self._root)
        return process_memory(self._tree.processes(files, 0.0), files)

    async def _add_npus(self, look: Look) -> None:
        if self._npus is None:
            return
        try:
            look.texts["npu-smi.txt"] = await self._npus()
        except CollectorError as error:
            look.notes.append(str(error))

    def _write(self, kind: CaptureKind, look: Look, now: float) -> tuple[Path, int]:
        summary = {"kind": kind, "time": now, **look.figures, "notes": look.notes}
        return write_evidence(self._folder, kind, look.texts, summary, self._redactor, now)
