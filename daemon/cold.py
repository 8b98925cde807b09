"""The cold lane of the configured engine: restarts ordered by a person or a campaign, one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal, Protocol, TypeVar

import structlog

from change.engine import Values
from change.lock import LockError
from change.restart.command import plain
from change.restart.order import Mismatch, RestartOrder, RestartResult
from change.restart.parts import Parts
from change.restart.record import last_good
from change.restart.recovery import recover
from change.restart.restart import Restart
from change.restart.roll_back import differs, order_back, undo_restarts
from change.restart.way_back import answers
from change.server import LaunchCommand, ServerError, ServerState, Settings
from change.steps import ChangeRefused
from daemon.notices import Notices
from store import StoreError
from store.models import JournalEntry

T = TypeVar("T")
_log = structlog.get_logger("trimtab")
Kind = Literal["trial", "promotion", "manual", "rollback"]
NOTHING: Settings = MappingProxyType({})


@dataclass(slots=True)
class Progress:
    """How far the restart under way is; times are those of its clock, in Unix seconds."""

    actor: str
    kind: str
    settings: Settings
    begun: float
    phase: str
    phase_begun: float
    line: str = ""

    def hear(self, text: str, now: float) -> None:
        """Take in a line of its course, which begins with the phase."""
        phase, _, line = text.partition(": ")
        if phase != self.phase:
            self.phase, self.phase_begun = phase, now
        self.line = line


class ColdCatalogue(Protocol):
    """What is known of the start-up settings of this engine, its version, its chip and its cards."""

    def settings(self, command: LaunchCommand) -> Settings:
        """Read the settings that a command spells out."""
        ...

    async def render(self, command: LaunchCommand, settings: Settings) -> LaunchCommand:
        """Put settings into a command and leave the rest of it as it is; raises `ServerError` if it cannot."""
        ...

    async def problems(self, settings: Settings, command: LaunchCommand) -> list[str]:
        """Say why these can never start here: a flag that is gone, a gate, a domain."""
        ...

    def mismatches(self, requested: Settings, effective: Settings) -> list[Mismatch]:
        """Compare what was asked with what is in force, however either is spelled."""
        ...

    def golden(self, settings: Settings) -> bool:
        """Whether they may change answers (quantisation, KV dtype)."""
        ...

    async def effective(self, log: Sequence[str]) -> Settings:
        """Read the settings in force, given the first lines of the log of a start; unknown ones are absent."""
        ...


class Cold:
    """`ColdLane` over the configured hand.

    Settings go over the last known good command: over a trial's own they would pile up.
    """

    def __init__(
        self,
        parts: Parts,
        catalogue: ColdCatalogue,
        notices: Notices,
        *,
        before: Callable[[], None] = lambda: None,
        close: Callable[[], Awaitable[None]] | None = None,
        log: Any = None,
    ) -> None:
        """`parts` need no judge that the catalogue is; `before` is called before each restart, `close` at the end.

        `log` hears each line of progress, the program's own if not given.
        """
        self._close = close
        self._log = _log if log is None else log
        self._work: asyncio.Task[Any] | None = None
        self._catalogue = catalogue
        self._notices = notices
        self._before = before
        self._turn = asyncio.Lock()
        self._unfinished = True
        self._worked = False
        """Whether there was a restart since the last tick, which may have left its entry open."""
        self._progress: Progress | None = None
        self._ended: float | None = None
        self._parts = replace(
            parts,
            judges=replace(
                parts.judges,
                problems=catalogue.problems,
                mismatches=catalogue.mismatches,
                golden=catalogue.golden,
                settings=catalogue.settings,
            ),
            say=self._say,
            alert=self._alert,
        )

    @property
    def running(self) -> bool:
        """Whether a restart or its recovery is under way."""
        return self._work is not None and not self._work.done()

    @property
    def progress(self) -> Progress | None:
        """How far the restart is that is under way, None while there is none."""
        return self._progress if self.running else None

    @property
    def restart_time(self) -> float | None:
        """Unix time when a restart was last under way, which is now while one is; None if there was none.

        One that was refused stopped nothing, and is none once that is known.
        """
        return self._ended if self.progress is None else self._parts.clock.now()

    async def state(self) -> ServerState:
        """What the hand says of the engine; raises `ServerError`."""
        return await self._parts.server.look()

    async def gives_a_token(self) -> bool:
        """Whether the engine answers a request for one token, within the time a restart gives it."""
        return await answers(self._parts)

    async def settings(self) -> Settings:
        """Return what the command spells out, and over it what the engine says."""
        spelled = self._catalogue.settings(plain(await self._parts.server.command()))
        return {**spelled, **await self._parts.probe.effective(())}

    async def problems(self, settings: Settings) -> list[str]:
        """Say why `settings` can never start here."""
        try:
            return await self._catalogue.problems(settings, await self._command(settings))
        except ServerError as error:
            return [str(error)]

    async def restart(
        self,
        settings: Settings,
        *,
        actor: str,
        kind: Kind,
        campaign_id: int | None = None,
        hot: Values | None = None,
        urgent: bool = False,
    ) -> RestartResult:
        """Restart with `settings` over the last known good command; see `ColdLane`, and `RestartOrder` for `urgent`."""
        async with self._turn:
            try:
                order = replace(await self._order(settings, actor, kind, campaign_id, hot), urgent=urgent)
            except (ServerError, StoreError, ChangeRefused) as error:
                return RestartResult("refused", "preflight", str(error))
            last = self._ended
            self._begins(actor, kind, settings)
            try:
                result = await self._whole(Restart(self._parts, order).run())
            except LockError as error:
                result = RestartResult("refused", "preflight", str(error))
            if result.outcome == "refused":
                self._ended = last
            return result

    async def undo(self, entries: Sequence[JournalEntry], actor: str, now: float) -> JournalEntry:
        """Take restarts back, newest first, by one restart; see `change.undo.Undo`."""
        async with self._turn:
            self._begins(actor)
            return await self._whole(undo_restarts(self._parts)(entries, actor, now))

    async def tick(self, now: float) -> None:
        """End what a process before this one or an order of this one left half done, until it is ended.

        Later calls do nothing. A promotion whose campaign did not end with it is taken back. A trial or a probation of
        a campaign that runs here is left alone: call `look_again` when one broke off.
        """
        if self._turn.locked():
            return
        if self._worked:
            self._unfinished = self._unfinished or self._left_open()
            self._worked = False
        if not self._unfinished:
            return
        async with self._turn:
            self._progress = None
            try:
                ended = await self._whole(recover(self._parts))
                ended += await self._take_back_unproven(now)
            except LockError as error:
                # Somebody else is at work: it is left alone, and looked at again with the next tick.
                self._notices.say("restarts", str(error), "info")
                return
            except ChangeRefused as error:
                self._notices.say(
                    "restarts", f"a promotion whose probation broke off is not taken back yet: {error}"
                )
                return
            self._unfinished = False
        self._notices.over("restarts", "open restarts are ended")
        for entry in ended:
            self._notices.say(
                f"recovered {entry.id}",
                f"restart {entry.id} takes back a promotion whose probation broke off: {entry.reason or entry.outcome}"
                if entry.undoes
                else f"restart {entry.id} was left open: {entry.reason or entry.outcome}",
                "info",
            )

    def look_again(self) -> None:
        """Have open restarts ended at the next tick."""
        self._unfinished = True

    async def finish(self) -> None:
        """Wait for the restart that is under way, as an engine must not be left stopped; then close connections."""
        if self._work is not None:
            await asyncio.wait({self._work})
        if self._close is not None:
            await self._close()

    async def _order(
        self, settings: Settings, actor: str, kind: Kind, campaign_id: int | None, hot: Values | None
    ) -> RestartOrder:
        """The order; a campaign that goes back takes back what it promoted, and does not spell it out anew."""
        if kind == "rollback" and campaign_id is not None:
            promotions = [entry for entry in self._standing() if entry.campaign_id == campaign_id]
            if promotions:
                return await order_back(self._parts, promotions[::-1], actor, campaign_id)
        return RestartOrder(settings, await self._command(settings), actor, kind, campaign_id, hot)

    def _standing(self) -> list[JournalEntry]:
        """Restarts that a rollback could take back, oldest first, whatever boot they were made on."""
        return [entry for entry in self._parts.journal.standing_anywhere("") if entry.lane == "cold"]

    async def _take_back_unproven(self, now: float) -> list[JournalEntry]:
        """Roll back the newest restart if it is a promotion that was not seen through its probation.

        What a person restarted on purpose since stands, by Trimtab or without it. One attempt: if what was promoted
        comes up again in its place, a person is told by the restart itself.
        """
        newest = next(iter(self._standing()[::-1]), None)
        if newest is None or newest.kind != "promotion" or newest.campaign_id is None:
            return []
        if self._parts.journal.campaign_promoted(newest.campaign_id):
            return []
        try:
            why = differs([newest], plain(await self._parts.server.command()))
        except ServerError as error:
            raise ChangeRefused(str(error)) from error
        if why is not None:
            self._notices.say(
                f"recovered {newest.id}",
                f"a promotion whose probation broke off is left alone: {why}",
                "info",
            )
            return []
        self._begins()
        return [await self._whole(undo_restarts(self._parts)([newest], "recovery", now))]

    async def _command(self, settings: Settings) -> LaunchCommand:
        good = last_good(self._parts.journal, plain(await self._parts.server.command()))
        return await self._catalogue.render(good, settings)

    async def _whole(self, work: Coroutine[Any, Any, T]) -> T:
        """Carry it out to its end also if whoever ordered it goes away."""
        self._work = task = asyncio.create_task(work)
        task.add_done_callback(lambda _: self._is_over())
        return await asyncio.shield(task)

    def _left_open(self) -> bool:
        """Whether a restart could not be brought to its end, so that no other may begin; a trial that serves is none.

        What is of a campaign is ended with it: its promotion is on probation, and would be taken back.
        """
        return any(
            entry.campaign_id is None and (entry.kind != "trial" or entry.state != "verified")
            for entry in self._parts.journal.open_entries("cold")
        )

    def _is_over(self) -> None:
        self._worked = True
        if self._progress is not None:
            self._ended = self._parts.clock.now()
        self._notices.over("restart", "the restart is over")

    def _begins(self, actor: str = "recovery", kind: str = "rollback", settings: Settings = NOTHING) -> None:
        self._before()
        self._follow(actor, kind, settings)
        self._notices.over("restart failed", "the engine is started once more")

    def _follow(self, actor: str, kind: str, settings: Settings) -> None:
        now = self._parts.clock.now()
        self._progress = Progress(actor, kind, settings, now, "preflight", now)

    def _say(self, text: str) -> None:
        if self._progress is None:
            self._follow("recovery", "rollback", NOTHING)  # the first word that there is something to recover
        if self._progress is not None:
            self._progress.hear(text, self._parts.clock.now())
        if self._notices.holds("restart"):
            # A notice whose words change is not logged again, and each line counts.
            self._log.info(f"restart: {text}")
        self._notices.say("restart", f"restart: {text}", "info")

    def _alert(self, text: str) -> None:
        self._notices.say("restart failed", text, "error")


def refused(result: RestartResult) -> ChangeRefused:
    """What an order is told that was not begun."""
    return ChangeRefused(f"nothing was restarted ({result.phase}): {result.reason}")
