"""The host lane of the configured engine as commands and the daemon change it: through journal and locks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from change.engine import EngineControl, EngineError
from change.host import HostChange
from change.host_knobs import HOST_KNOBS
from change.host_steps import (
    LASTING,
    HostLocks,
    change_host,
    promoted_holds,
    reapply_host,
    recover_host,
    rollback_host,
    values_before,
)
from change.journal import Journal
from change.lock import EngineLock, NodeLock
from change.steps import ChangeRefused
from collectors.history import History
from collectors.host.files import SystemFiles
from collectors.host.tree import EngineTree, Process, read_stat
from daemon.host.hand import HostHand
from daemon.host.parts import kernel_boot_id
from daemon.host_sources import npu_nodes
from store.models import JournalEntry

NODE_LOCKS = Path("run/lock/trimtab")
"""Below the root, and not in an engine's own folder: every Trimtab of the node must meet there."""


class HostLane:
    """One engine's host lane, through its journal and under its locks.

    Changing methods raise `ChangeRefused`, `LockError` or `JournalUnwritable` when nothing was done, and `HostError`
    when the host failed.
    """

    def __init__(
        self,
        hand: HostHand,
        control: EngineControl,
        journal: Journal,
        lock_dir: Path,
        engine_pid: Callable[[], int | None],
        root: Path = Path("/"),
    ) -> None:
        self.hand = hand
        self._control = control
        self._journal = journal
        self._lock_dir = lock_dir
        self._engine_pid = engine_pid
        self._root = root
        self._files = SystemFiles(root)

    async def apply(self, changes: Sequence[HostChange], actor: str, now: float) -> dict[str, Any]:
        """Make changes by hand, for good."""
        for change in changes:
            if change.knob in HOST_KNOBS and (why := await self.hand.refusal(change.knob)) is not None:
                raise ChangeRefused(why)
        entry = await change_host(
            self.hand,
            self._journal,
            changes,
            boot_id=self.boot_id(),
            kind="manual",
            actor=actor,
            now=now,
            locks=await self.locks(f"an order of {actor}"),
        )
        return outcome(entry)

    async def rollback(self, n: int, actor: str, now: float) -> dict[str, Any]:
        """Take back the last `n` changes of the host lane."""
        return outcome(await self._take_back(n, actor, now))

    async def undo(self, entries: Sequence[JournalEntry], actor: str, now: float) -> JournalEntry:
        """Take back its newest changes, newest first, as a part of a rollback over all lanes."""
        return await self._take_back(len(entries), actor, now)

    async def detach(self, actor: str, now: float) -> dict[str, Any] | None:
        """Take everything of the host lane back; None if nothing stands."""
        standing = self._journal.standing(self.boot_id(), "host")
        return await self.rollback(len(standing), actor, now) if standing else None

    async def recover(self, now: float) -> list[JournalEntry]:
        """End what was left open; see `change.host_steps.recover_host`."""
        if not self._journal.open_entries("host"):
            return []
        return await recover_host(
            self.hand, self._journal, now, boot_id=self.boot_id(), locks=await self.locks("recovery")
        )

    async def take_back_unproven(self, now: float) -> list[JournalEntry]:
        """Roll back the newest promotions whose campaign did not end with them; return the entries that did so."""
        done = []
        while standing := self._journal.standing(self.boot_id(), "host"):
            newest = standing[-1]
            if newest.kind != "promotion" or newest.campaign_id is None:
                break
            if self._journal.campaign_promoted(newest.campaign_id):
                break
            entry = await rollback_host(
                self.hand,
                self._journal,
                1,
                now,
                boot_id=self.boot_id(),
                actor="recovery",
                locks=await self.locks("recovery"),
            )
            done.append(entry)
            if entry.outcome != "done":
                break
        return done

    def promoted(self) -> bool:
        """Whether anything of the host lane stands by promotion."""
        return any(entry.kind in LASTING for entry in self._journal.standing(self.boot_id(), "host"))

    async def reapply(self, now: float) -> JournalEntry | None:
        """Put the promoted placement on the threads of an engine that started again."""
        return await reapply_host(
            self.hand,
            self._journal,
            now,
            boot_id=self.boot_id(),
            actor="daemon",
            locks=await self.locks("re-apply"),
        )

    async def promoted_holds(self) -> bool:
        """Whether what was promoted on the engine's processes reads back."""
        return await promoted_holds(self.hand, self._journal, boot_id=self.boot_id())

    async def serving(self) -> str | None:
        """The boot of the engine that serves now; None while its plugin does not answer, as in a start."""
        try:
            return (await self._control.state()).boot_id
        except EngineError:
            return None

    def processes(self) -> list[Process]:
        """The engine's processes now; none while its main one is not known. It blocks."""
        return EngineTree(self._engine_pid).processes(self._files, 0.0)

    async def locks(self, what: str) -> HostLocks:
        """The locks a change needs: the engine's by its process always, by its boot too where its plugin tells it.

        So whoever began while the plugin answered and whoever begins while it does not still meet.
        """
        boot = await self.serving()
        return HostLocks(
            None if boot is None else EngineLock(self._lock_dir, boot, what),
            self.node_lock(what),
            await asyncio.to_thread(self.process_lock, what),
        )

    def process_lock(self, what: str) -> EngineLock:
        """The right to change the engine's process, whether or not its plugin answers. It blocks."""
        return EngineLock(self._lock_dir, self._process_name(), what)

    def node_lock(self, what: str) -> NodeLock:
        """The right to change what all of the node shares."""
        return NodeLock(self._root / NODE_LOCKS, self.boot_id(), what)

    def boot_id(self) -> str:
        """This boot of the host, as the journal names it."""
        return kernel_boot_id(self._root)

    async def _take_back(self, n: int, actor: str, now: float) -> JournalEntry:
        return await rollback_host(
            self.hand,
            self._journal,
            n,
            now,
            boot_id=self.boot_id(),
            actor=actor,
            locks=await self.locks(f"an order of {actor}"),
        )

    def process(self) -> tuple[int, int] | None:
        """The engine's main process, number and start in clock ticks; None while it is not known. It blocks."""
        pid = self._engine_pid()
        stat = None if pid is None else read_stat(self._files, f"/proc/{pid}/stat")
        return None if pid is None or stat is None else (pid, stat.start_ticks)

    def _process_name(self) -> str:
        process = self.process()
        return "no-process" if process is None else f"process-{process[0]}-{process[1]}"


def near_nodes(
    history: History, own_card: Callable[[str], bool | None], pids: Iterable[int] = ()
) -> frozenset[int]:
    """The nodes of the engine's NPUs: of those its processes use where that is known, else of its cards."""
    by_process = npu_nodes(history)
    used = frozenset().union(*(by_process.get(pid, frozenset()) for pid in pids))
    if used:
        return used
    found = set()
    for own in history.series("npu_numa_node"):
        sample = history.latest("npu_numa_node", own)
        if (
            sample is not None
            and isinstance(sample.value, float)
            and own_card(dict(own).get("npu", "")) is not False
        ):
            found.add(int(sample.value))
    return frozenset(found)


def outcome(entry: JournalEntry) -> dict[str, Any]:
    """What came of an order: `outcome` is `done`, or `undone` with the reason."""
    return {
        "entry": entry.id,
        "kind": entry.kind,
        "outcome": entry.outcome,
        "requested": dict(entry.change),
        "before": values_before(entry.undo),
        "effective": None if entry.effective is None else dict(entry.effective),
        "reason": entry.reason,
    }
