"""After a crash of the daemon in the middle of a restart: the engine ends on what is known to be good.

Whatever the point of the crash, and as often as it happens again in here: the journal's entries stay open until the
engine serves, and every step may be repeated. An engine that somebody else started with a command of his own is left
alone, and the entries are closed.
"""

from __future__ import annotations

import contextlib
from typing import Literal

from change.engine import EngineError
from change.restart.begin import Start
from change.restart.command import plain, same
from change.restart.course import Course
from change.restart.end import attend
from change.restart.gate import Keeper
from change.restart.locks import RestartLocks
from change.restart.parts import Parts, PhaseFailed
from change.restart.record import command_of, evidence, good_of, ours, processes_of
from change.restart.way_back import NOTHING, end_failed, give_up, open_gate, serves_on, start_good
from change.server import LaunchCommand, ServerState
from store.models import JournalEntry


async def recover(parts: Parts) -> list[JournalEntry]:
    """Bring every open restart to an end, newest first; return the entries closed.

    Raises `ServerError`, `StoreError` or `LockError` when that could not be done yet: the entries stay open, so try
    again. An engine that does not come back is `down`: the entry is closed with the evidence and a person is told.
    """
    if not parts.journal.open_entries("cold"):
        return []
    recovery = _Recovery(parts)
    async with recovery.keeper:
        with recovery.locks:
            return await recovery.run()


class _Recovery:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._course = Course(parts.clock, parts.say)
        self.keeper = Keeper(parts.control, parts.settings)
        self.locks = RestartLocks(parts.lock, parts.journal.engine)
        self._starts = 0

    async def run(self) -> list[JournalEntry]:
        # Read under the lock: whoever held it may have closed its own meanwhile.
        journal = self._parts.journal
        # The drain alone may take longer than a guardian waits for the next daemon.
        await attend(self._parts, self._course)
        unfinished = journal.open_entries("cold")
        with contextlib.suppress(EngineError):
            # A campaign of another process may live on that boot: its trial is its own to end.
            self.locks.take((await self._parts.control.state()).boot_id)
        left = list(unfinished)
        while left:
            left = await self._end(left)
        return [journal.entry(entry.id) for entry in reversed(unfinished)]

    async def _end(self, unfinished: list[JournalEntry]) -> list[JournalEntry]:
        """End the newest of the open entries; returns those that are still open."""
        parts = self._parts
        entry = unfinished[-1]
        state = await parts.server.look()
        known = plain(await parts.server.command())
        if entry.state == "intended" and state.running and state.identity == entry.change.get("identity"):
            await self._open_if_closed()
            self._close(entry, "recovered", "left intended by a crash: nothing was stopped")
            return unfinished[:-1]
        if (state.running or state.starting) and not ours(unfinished, known):
            for each in reversed(unfinished):
                self._close(each, "recovered", "somebody else's command serves: it is left alone")
            return []
        if await self._untouched(entry, known, state):
            self._close(
                entry, "recovered", "left applied by a crash: the engine was not stopped, and serves on"
            )
            return unfinished[:-1]
        wanted = command_of(entry, known)
        proved = entry.state == "verified" and (entry.kind != "trial" or self._home(entry, known))
        if proved and state.running and same(known, wanted) and await self._well():
            await self._complete(entry, wanted)
        else:
            await self._go_back(entry, known, state)
        for older in unfinished[:-1]:
            self._close(older, "recovered", f"ended with entry {entry.id} after a crash")
        return []

    def _home(self, entry: JournalEntry, known: LaunchCommand) -> bool:
        return same(command_of(entry, known), good_of(entry, known).command)

    async def _untouched(self, entry: JournalEntry, known: LaunchCommand, state: ServerState) -> bool:
        """Whether the engine that was to end was not stopped, or not in earnest: the last known good serves on."""
        identity = entry.change.get("identity")
        if entry.state != "applied" or not state.running or state.identity != identity:
            return False
        if not same(known, good_of(entry, known).command):
            return False
        return await serves_on(self._parts, self._course, self.keeper, identity)

    async def _well(self) -> bool:
        """Whether what serves still does, asked for a little while: it may be about to end."""
        for _ in range(2):
            if not await self._parts.probe.healthy():
                return False
            await self._parts.clock.sleep(self._parts.settings.poll_seconds)
        return True

    async def _complete(self, entry: JournalEntry, wanted: LaunchCommand) -> None:
        """A proved start stands: what the process had no time for is done now."""
        await self._parts.server.keep(wanted)
        await self._open_if_closed()
        self._close(entry, "done", "verified before a crash, completed at start")

    async def _go_back(self, entry: JournalEntry, known: LaunchCommand, state: ServerState) -> None:
        parts = self._parts
        good = good_of(entry, known)
        start = self._new_start()
        # The last known good under a new identity: the way back had begun when the process died.
        there = state.running or state.starting
        begun = there and same(known, good.command) and state.identity != entry.change.get("identity")
        trouble: PhaseFailed | None = None
        if begun:
            try:
                await start_good(parts, self._course, self.keeper, good, start, entry.id, begun=True)
            except PhaseFailed as failed:
                trouble, begun = failed, False
        if not begun:
            try:
                await end_failed(parts, self._course, self.keeper, processes_of(entry), let_in=state.running)
                start = self._new_start()
                self._starts += 1
                await start_good(parts, self._course, self.keeper, good, start, entry.id)
                trouble = None
            except PhaseFailed as failed:
                trouble = failed
        figures = evidence(self._course.seconds, self._course.down_seconds, self._starts)
        left = f"left {entry.state} by a crash"
        if trouble is None:
            await parts.server.keep(good.command)
            self._close(entry, "recovered", f"{left}: the last known good serves again", figures)
            return
        stands = await give_up(parts, self._course, self.keeper, good, trouble)
        if stands is None:
            text = f"{left}: the last known good serves, though not as it should ({trouble.phase}): {trouble}"
            parts.alert(text)
            self._close(entry, "recovered", text, figures)
            return
        text = f"{left}, and the last known good did not come back ({trouble.phase}): {trouble}"
        parts.alert(f"{stands}: {text}; the daemon tries nothing more")
        ended = {"log": list(start.tail), "failed_in": trouble.phase, "left_down": stands == NOTHING}
        self._close(entry, "undone", text, {**figures, **ended})

    async def _open_if_closed(self) -> None:
        parts = self._parts
        try:
            if (await parts.control.state()).gate == "closed":
                await open_gate(parts, self._course, self.keeper)
        except (EngineError, PhaseFailed) as error:
            self._course.say(f"the gate opens by its lease: {error}")

    def _new_start(self) -> Start:
        return Start(self._parts, self._course, self.locks.take_new)

    def _close(
        self,
        entry: JournalEntry,
        outcome: Literal["done", "undone", "recovered"],
        reason: str,
        figures: dict[str, object] | None = None,
    ) -> None:
        effective = None if figures is None else {**(entry.effective or {}), **figures}
        self._parts.journal.close(entry.id, outcome, self._parts.clock.now(), reason, effective=effective)
