"""Huawei's `msprof`: attached to a prepared process (dynamic), or over the devices of the node (system).

Dynamic: the process was started with `PROFILING_MODE=dynamic`; `msprof --dynamic=on --pid=N` is then a prompt that
takes `start`, `stop` and `quit`, from one user at a time. System: `msprof --sys-period=S --sys-devices=N` without an
application records by itself for S seconds. Both write `PROF_*` folders below `--output` and export them to
`mindstudio_profiler_output` (CANN Profiling Tool User Guide, "Dynamic Profiling" and "Profiling System Data").
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from change.profiler import ProfilerAbsent, ProfilerError
from daemon.profile.folders import size_of

PREPARED = "PROFILING_MODE=dynamic"
EXPORTED = "mindstudio_profiler_output"
TAIL_BYTES = 4096
"""What is kept of the tool's own words, for the error."""
SETTLE_SECONDS = 1.0
"""A tool that cannot work ends within this time."""
GRACE_SECONDS = 5.0
"""What an ended group is given before it is killed."""

DYNAMIC_METRICS = ("--task-time=on", "--ascendcl=on", "--ai-core=on", "--aic-metrics=PipeUtilization")
SYSTEM_METRICS = ("--ai-core=on", "--aic-mode=sample-based", "--sys-hardware-mem=on")


class Tool:
    """One msprof child in a process group of its own; its output is read all the time, the end of it is kept."""

    def __init__(self, command: str) -> None:
        self._command = command
        self._child: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._tail = bytearray()

    async def begin(self, arguments: Sequence[str]) -> None:
        """Start it; raises `ProfilerAbsent` if it is not there, `ProfilerError` if it ends at once."""
        self._tail.clear()
        try:
            self._child = await asyncio.create_subprocess_exec(
                self._command,
                *arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise ProfilerAbsent(
                f"{self._command} cannot be run ({error.strerror}): source CANN's set_env.sh, or set capture.msprof"
            ) from error
        self._reader = asyncio.create_task(self._read(self._child))
        try:
            async with asyncio.timeout(SETTLE_SECONDS):
                code = await self._child.wait()
        except TimeoutError:
            return  # it lives, as it should
        await self._reader
        self._child = None
        if code:
            raise ProfilerError(f"{self._command} ended at once with {code}: {self.words()}")

    async def say(self, word: str) -> None:
        """Type a command at its prompt; raises `ProfilerError` if it is gone."""
        child = self._child
        if child is None or child.stdin is None or child.returncode is not None:
            raise ProfilerError(f"{self._command} is gone: {self.words()}")
        try:
            child.stdin.write(f"{word}\n".encode())
            await child.stdin.drain()
        except OSError as error:
            raise ProfilerError(f"{self._command} takes no command any more: {self.words()}") from error

    async def abort(self) -> None:
        """End it now, whatever it is doing."""
        child, self._child = self._child, None
        if child is not None:
            await _killed(child)
        if self._reader is not None:
            self._reader.cancel()

    async def ended(self) -> None:
        """Wait for its end; raises `ProfilerError` for a bad one. Whoever is cancelled here kills it."""
        child, self._child = self._child, None
        if child is None:
            return
        try:
            if child.stdin is not None:
                child.stdin.close()
            code = await child.wait()
        finally:
            await _killed(child)
            if self._reader is not None:
                self._reader.cancel()
        if code:
            raise ProfilerError(f"{self._command} ended with {code}: {self.words()}")

    def words(self) -> str:
        """The last it said, in one line."""
        return " ".join(self._tail.decode(errors="replace").split())[-400:] or "it said nothing"

    async def _read(self, child: asyncio.subprocess.Process) -> None:
        assert child.stdout is not None
        while chunk := await child.stdout.read(65536):
            self._tail += chunk
            del self._tail[:-TAIL_BYTES]


class _Msprof:
    """What both ways share: the tool, the folder, and the export of what was recorded."""

    def __init__(self, command: str) -> None:
        self._command = command
        self._tool = Tool(command)
        self._folder: Path | None = None

    def sizes(self) -> Mapping[Path, int]:
        """See `Profiler`."""
        return {} if self._folder is None else {self._folder: size_of(self._folder)}

    def place(self, folder: Path) -> Path:
        """See `Profiler`."""
        return folder

    def discard(self) -> tuple[Path, ...]:
        """See `Profiler`; what could not be removed stays."""
        if self._folder is None:
            return ()
        shutil.rmtree(self._folder, ignore_errors=True)
        return (self._folder,) if self._folder.exists() else ()

    async def _export(self) -> None:
        """Older versions leave raw data: have it exported. Nothing recorded is no reason to."""
        folder = self._folder
        if folder is None or any(folder.rglob(EXPORTED)) or not any(folder.glob("PROF_*")):
            return
        await self._tool.begin([f"--output={folder}", "--export=on"])
        await self._tool.ended()


class DynamicMsprof(_Msprof):
    """Attaches to processes that were started with `PROFILING_MODE=dynamic`: the workers that hold the NPUs."""

    way = "msprof-dynamic"

    def __init__(self, command: str, pids: Sequence[int], root: Path = Path("/")) -> None:
        super().__init__(command)
        self._pids = tuple(pids)
        self._root = root
        self._recording = False

    async def start(self, folder: Path, seconds: float) -> None:
        """See `Profiler`."""
        if not self._pids:
            raise ProfilerAbsent("no process that holds an NPU is known here: name it (--pid)")
        for pid in self._pids:
            self._need_prepared(pid)
        self._folder = folder
        pids = ",".join(map(str, self._pids))
        await self._tool.begin([f"--output={folder}", "--dynamic=on", f"--pid={pids}", *DYNAMIC_METRICS])
        self._recording = True
        await self._tool.say("start")

    async def stop(self) -> None:
        """See `Profiler`."""
        if not self._recording:
            await self._tool.abort()
            return
        self._recording = False
        try:
            await self._tool.say("stop")
            await self._tool.say("quit")
        finally:
            await self._tool.ended()
        await self._export()

    def _need_prepared(self, pid: int) -> None:
        try:
            environment = (self._root / "proc" / str(pid) / "environ").read_bytes()
        except PermissionError as error:
            raise ProfilerAbsent(f"process {pid} belongs to another user: run as it or as root") from error
        except OSError as error:
            raise ProfilerAbsent(f"there is no process {pid} here") from error
        if PREPARED.encode() not in environment.split(b"\0"):
            raise ProfilerAbsent(
                f"process {pid} was not started with {PREPARED}: set it in the engine's environment and restart it"
            )


class SystemMsprof(_Msprof):
    """Records whole devices for a fixed time, whoever works on them.

    `devices` are numbers as msprof counts them (physical ids). `cards` tells the card of each where two dies share one
    (A3): both dies of a card cannot be recorded at once.
    """

    way = "msprof-system"

    def __init__(self, command: str, devices: Sequence[int], cards: Mapping[int, str] | None = None) -> None:
        super().__init__(command)
        self._devices = tuple(devices)
        self._cards = dict(cards or {})
        self._ends = math.inf

    async def start(self, folder: Path, seconds: float) -> None:
        """See `Profiler`."""
        if not self._devices:
            raise ProfilerAbsent("no NPU is known here: name the devices (--devices)")
        by_card: dict[str, int] = {}
        for device in self._devices:
            card = self._cards.get(device)
            if card is not None and by_card.setdefault(card, device) != device:
                raise ProfilerError(
                    f"devices {by_card[card]} and {device} are the two dies of card {card}, which cannot be recorded "
                    "at once: name one of them (--devices)"
                )
        self._folder = folder
        devices = ",".join(map(str, self._devices))
        period = max(1, round(seconds))
        await self._tool.begin(
            [f"--output={folder}", f"--sys-period={period}", f"--sys-devices={devices}", *SYSTEM_METRICS]
        )
        self._ends = asyncio.get_running_loop().time() + period - SETTLE_SECONDS

    async def stop(self) -> None:
        """See `Profiler`; it ends by itself after its period, and is ended if that is not near."""
        if asyncio.get_running_loop().time() < self._ends - SETTLE_SECONDS:
            await self._tool.abort()
            return
        await self._tool.ended()
        await self._export()


def npu_holders(pids: Sequence[int], root: Path = Path("/")) -> dict[int, tuple[int, ...]]:
    """Which of these processes hold which NPUs: pid to device numbers, from their open `/dev/davinciN`.

    Processes that are gone or belong to another user are left out.
    """
    found: dict[int, tuple[int, ...]] = {}
    for pid in pids:
        devices: set[int] = set()
        with contextlib.suppress(OSError):
            for entry in (root / "proc" / str(pid) / "fd").iterdir():
                with contextlib.suppress(OSError):
                    number = str(entry.readlink()).removeprefix("/dev/davinci")
                    if number.isdecimal():
                        devices.add(int(number))
        if devices:
            found[pid] = tuple(sorted(devices))
    return found


async def _killed(child: asyncio.subprocess.Process) -> None:
    """End the child's group if it still runs: politely, then for good. It is ours: it was not waited for yet."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        if child.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, sign)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE_SECONDS):
                await child.wait()
