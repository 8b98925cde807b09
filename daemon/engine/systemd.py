"""The hand `systemd`: a service of the host's systemd, changed by drop-ins and asked through systemd's own programs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from change.server import LaunchCommand, LogPart, ProcessMark, ServerBusy, ServerError, ServerState
from daemon.engine.drop_in import DropIns, Remembered, launch
from daemon.engine.program import Said, run_program
from daemon.engine.unit_words import bus_path
from daemon.guardian.wire import Command
from daemon.process_mark import lives, process_mark

ANSWER_SECONDS = 30.0
PAUSE_SECONDS = 0.3
AFTER_GRACE_SECONDS = 30.0
PROPERTIES = (
    "LoadState",
    "ActiveState",
    "SubState",
    "MainPID",
    "ExecMainPID",
    "ExecMainCode",
    "ExecMainStatus",
    "InvocationID",
    "ControlGroup",
)
ENDED = frozenset({"inactive", "failed"})
EXITED = "1"
"""CLD_EXITED, as `ExecMainCode` has it; else `ExecMainStatus` is a signal."""


class SystemdServer:
    """Looks after `unit`; `root` is where its files and control group are. Every call raises `ServerError`."""

    way = "systemd"
    keeps_original = False

    def __init__(self, unit: str, *, root: Path = Path("/")) -> None:
        self._unit = unit
        self._root = root
        self._files = DropIns(unit, root)

    async def command(self) -> LaunchCommand:
        """Return how the engine that runs now, or ran last, was started; words with a `$` are systemd's to fill in."""
        remembered = self._files.tried() or self._files.kept()
        return launch(remembered) if remembered is not None else (await self._own()).launch()

    async def look(self) -> ServerState:
        """Say what runs."""
        return self._state(await self._show())

    async def objections(self) -> list[str]:
        """Say whether the drop-ins cannot be written, or systemd takes no orders from this user; see `EngineServer`."""
        try:
            await self._show()
            await asyncio.to_thread(self._files.test_writing)
            await self._refuse_edited()
            # The one order that changes nothing: it asks for the same right as a stop and a start.
            await self._systemctl("reset-failed", "--no-ask-password", self._unit)
        except ServerError as error:
            return [str(error)]
        return []

    async def attend(self) -> None:
        """Do nothing: nobody else puts the engine back here."""

    async def stop(self, *, grace_seconds: float) -> None:
        """Stop the unit; after the grace, or the unit's own TimeoutStopSec if that is shorter, all of it is killed."""
        await self._systemctl("stop", "--no-block", self._unit)
        deadline = asyncio.get_running_loop().time() + grace_seconds
        killed = False
        while not await self._gone():
            now = asyncio.get_running_loop().time()
            if now >= deadline + AFTER_GRACE_SECONDS:
                raise ServerError(
                    f"{self._unit}: killed but not gone: a driver may hold its processes; "
                    f"see `systemctl status {self._unit}` and the kernel's log"
                )
            if now >= deadline and not killed:
                killed = True
                await self._systemctl("kill", "--signal=SIGKILL", self._unit)
            await asyncio.sleep(PAUSE_SECONDS)

    async def start(self, command: LaunchCommand) -> ServerState:
        """Begin a start; another command than the kept one is a try, forgotten by a reboot unless it is kept."""
        with self._files.alone():
            found = await self._show()
            if found["ActiveState"] not in ENDED or self._processes(found):
                raise ServerError(f"{self._unit} is {found['ActiveState']}: stop it first")
            remembered = await self._remembered(command)
            kept = self._files.kept()
            if remembered.command == (kept.command if kept is not None else remembered.own):
                self._files.drop_try()
            else:
                self._files.put_try(remembered)
            await self._systemctl("daemon-reload")
            await self._systemctl("reset-failed", self._unit, must=False)  # earlier failures count no more
            await self._systemctl("start", "--no-block", self._unit)
            return await self._begun()

    async def log(self, position: str | None) -> LogPart:
        """Read the journal of the present run."""
        run = (await self._show())["InvocationID"]
        if not run:
            return LogPart((), position or "")
        of, _, cursor = (position or "").partition(" ")
        words = ["--quiet", "--no-pager", "--output=cat", "--show-cursor", f"_SYSTEMD_INVOCATION_ID={run}"]
        if of == run and cursor:
            words.append(f"--after-cursor={cursor}")
        else:
            cursor = ""
        said = await self._run(["journalctl", *words], must=False)
        # Where there is nothing to show yet it ends with 1 and says nothing.
        if said.code != 0 and (said.errors.strip() or said.code != 1):
            raise ServerError(f"journalctl for {self._unit}: {said.reason}")
        lines = said.output.splitlines()
        if lines and lines[-1].startswith("-- cursor: "):
            cursor = lines.pop().removeprefix("-- cursor: ")
        return LogPart(tuple(lines), f"{run} {cursor}")

    async def keep(self, command: LaunchCommand) -> None:
        """Make `command` the unit's at the next start, also after a reboot."""
        with self._files.alone():
            remembered = await self._remembered(command)
            # First for good, then without the try: a crash between them leaves the same command in force.
            self._files.keep(remembered)
            self._files.drop_try()
            await self._systemctl("daemon-reload")

    async def _refuse_edited(self) -> None:
        """The operator's later word on how the engine is started counts, and ours would stand over it."""
        before = self._files.kept()
        now = await self._fingerprint()
        if before is not None and before.unit and now and before.unit != now:
            raise ServerError(
                f"the ExecStart= of {self._unit} was edited after Trimtab kept a command for it, which still stands "
                f"over it: remove {self._files.kept_file}, then `systemctl daemon-reload` and restart it to have yours"
            )

    async def _fingerprint(self) -> str:
        said = await self._systemctl("show", "--no-pager", "--property=FragmentPath,DropInPaths", self._unit)
        found = dict(line.partition("=")[::2] for line in said.output.splitlines() if "=" in line)
        fragment = found.get("FragmentPath", "")
        return self._files.fingerprint(fragment, found.get("DropInPaths", "").split()) if fragment else ""

    async def _remembered(self, command: LaunchCommand) -> Remembered:
        before = self._files.tried() or self._files.kept()
        own = before.own if before is not None else await self._own()
        unit = (before.unit if before is not None else "") or await self._fingerprint()
        try:
            return Remembered(command=Command.of(command), own=own, unit=unit)
        except ValidationError as error:
            raise ServerError(f"the command cannot be a unit's: {error.error_count()} words") from error

    async def _own(self) -> Command:
        """The unit's own command, word by word: `systemctl show` would join the words with blanks."""
        words = ["get-property", "org.freedesktop.systemd1", bus_path(self._unit)]
        said = await self._run(
            ["busctl", "--json=short", *words, "org.freedesktop.systemd1.Service", "ExecStart"]
        )
        try:
            commands = json.loads(said.output)["data"]
            [(_, argv, *_)] = commands
            return Command(argv=argv)
        except (ValueError, KeyError, TypeError) as error:
            raise ServerError(
                f"{self._unit}: its ExecStart= is not one plain command; see `systemctl cat {self._unit}`"
            ) from error

    async def _begun(self) -> ServerState:
        """Wait until the start has left the queue: until then systemd shows the run before."""
        for _ in range(20):
            found = await self._show()
            if found["MainPID"] != "0" or found["ActiveState"] == "failed":
                return self._state(found)
            await asyncio.sleep(PAUSE_SECONDS / 3)
        return self._state(await self._show())

    async def _gone(self) -> bool:
        found = await self._show()
        return found["ActiveState"] in ENDED and not self._processes(found)

    async def _show(self) -> Mapping[str, str]:
        said = await self._systemctl("show", "--no-pager", f"--property={','.join(PROPERTIES)}", self._unit)
        found = dict(line.partition("=")[::2] for line in said.output.splitlines() if "=" in line)
        if missing := [name for name in PROPERTIES if name not in found and name != "ControlGroup"]:
            raise ServerError(f"systemctl show {self._unit}: does not tell {missing[0]}; is it systemd?")
        if found["LoadState"] != "loaded":
            raise ServerError(
                f"{self._unit} is {found['LoadState']}, not loaded: see `systemctl cat {self._unit}`"
            )
        return found

    def _state(self, found: Mapping[str, str]) -> ServerState:
        running = found["ActiveState"] not in ENDED and found["SubState"] != "auto-restart"
        code: int | None = None
        if not running and found["ExecMainPID"] != "0" and found["ExecMainStatus"].isdecimal():
            status = int(found["ExecMainStatus"])
            code = status if found["ExecMainCode"] == EXITED else 128 + status
        return ServerState(running, found["InvocationID"] or None, code, self._processes(found))

    def _processes(self, found: Mapping[str, str]) -> tuple[ProcessMark, ...]:
        main = int(found["MainPID"]) if found["MainPID"].isdecimal() else 0
        pids = [main] if main else []
        group = found.get("ControlGroup", "").strip("/")
        if group:
            for mount in ("sys/fs/cgroup", "sys/fs/cgroup/systemd"):
                for file in sorted((self._root / mount / group).rglob("cgroup.procs")):
                    pids += _numbers(file)
        marks = [_mark(pid) for pid in dict.fromkeys(pids)]
        return tuple(mark for mark in marks if mark is not None)

    async def _systemctl(self, *words: str, must: bool = True) -> Said:
        return await self._run(["systemctl", *words], must=must)

    async def _run(self, argv: list[str], *, must: bool = True) -> Said:
        said = await run_program(argv, timeout_seconds=ANSWER_SECONDS)
        if must and said.code != 0:
            if "Transaction" in said.reason:  # "... is destructive": another job of the unit is queued
                raise ServerBusy(f"{self._unit}: {said.reason}")
            raise ServerError(f"{argv[0]} {argv[1]} {self._unit}: {said.reason}")
        return said


def _numbers(file: Path) -> list[int]:
    try:
        return [int(word) for word in file.read_text().split() if word.isdecimal()]
    except OSError:
        return []  # the group ended meanwhile


def _mark(pid: int) -> ProcessMark | None:
    found = process_mark(pid)
    return found if found is not None and lives(found) else None
