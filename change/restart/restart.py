"""One restart from pre-flight to the open gate: one failed start at most, then one return to the last known good.

The journal's entry is written before the gate closes, and says `applied` before the engine is asked to end: a process
that dies between any two steps leaves a note of how far it may have come.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any, Literal

from change.engine import EngineError, Values
from change.journal import restart_actor
from change.restart.begin import Begun, Proof, Start
from change.restart.command import plain, same
from change.restart.course import Course
from change.restart.end import URGENT_ANSWER_SECONDS, close_and_drain, close_in_haste, held_by, release, stop
from change.restart.gate import Keeper
from change.restart.hot_values import Proved, on_purpose, set_again
from change.restart.locks import RestartLocks
from change.restart.order import Outcome, Phase, RestartOrder, RestartResult
from change.restart.parts import Parts, PhaseFailed
from change.restart.preflight import objections
from change.restart.record import (
    Good,
    evidence,
    good_of,
    open_trial,
    proved_now,
    proved_of,
    written_change,
    written_good,
)
from change.restart.way_back import NOTHING, end_failed, give_up, open_gate, spared, start_good
from change.server import LaunchCommand, ProcessMark, ServerError, ServerState
from store import StoreError
from store.models import JournalEntry


class Restart:
    """Carries out one order; use it once."""

    def __init__(self, parts: Parts, order: RestartOrder) -> None:
        self._parts = parts
        self._order = order
        self._course = Course(parts.clock, parts.say)
        self._keeper = Keeper(parts.control, parts.settings)
        self._locks = RestartLocks(parts.lock, parts.journal.engine)
        self._trial: JournalEntry | None = None
        self._entry: int | None = None
        self._owned: tuple[ProcessMark, ...] = ()
        self._identity: str | None = None
        self._starts = 0
        self._start = Start(parts, self._course, self._locks.take_new)
        self._stopped = self._let_in = False
        self._lost = 0

    async def run(self) -> RestartResult:
        """Restart; never raises for an engine that fails, but `LockError` if somebody else changes it now."""
        async with self._keeper:
            with self._locks:
                return await self._run()

    async def _run(self) -> RestartResult:
        parts, order = self._parts, self._order
        try:
            state = await parts.server.look()
            now_command = plain(await parts.server.command())
            good = await self._last_good(now_command, state)
            self._owned = await parts.ground.family(state.processes)
            self._identity = state.identity if state.running else None
            in_place = self._trial is not None and state.running and same(order.command, now_command)
            if in_place and order.kind != "trial":
                return await self._promote_in_place(good, now_command, state)
            found = await objections(parts, order, good.command, self._owned, state.running)
            if found:
                return self._result("refused", "preflight", "; ".join(found))
            self._entry = self._write(good, state)
        except (ServerError, EngineError, StoreError, PhaseFailed) as error:
            return self._result("refused", "preflight", str(error))
        try:
            proof = await self._go(good, state)
        except PhaseFailed as failed:
            return await self._back(good, failed)
        except (ServerError, EngineError, StoreError) as error:
            return await self._back(good, PhaseFailed(self._course.phase, str(error)))
        except Exception as error:
            # A fault of the program must not leave users without an engine: the way back is made of tried steps.
            return await self._back(
                good, PhaseFailed(self._course.phase, f"a fault of the program: {error!r}")
            )
        return await self._finish(good, proof)

    # ------------------------------------------------------------------ what is there

    async def _last_good(self, now_command: LaunchCommand, state: ServerState) -> Good:
        """What to go back to: what a trial took the place of, else what serves."""
        parts = self._parts
        self._trial = open_trial(parts.journal, now_command, state)
        boot = None
        with contextlib.suppress(EngineError, TimeoutError):
            async with asyncio.timeout(URGENT_ANSWER_SECONDS if self._order.urgent else None):
                boot = await parts.control.state()
        if boot is not None:
            self._locks.take(boot.boot_id)
            parts.journal.note_launch(boot, parts.clock.now())
        self._boot_id = "" if boot is None else boot.boot_id
        if self._trial is not None:
            return good_of(self._trial, now_command)
        settings = parts.judges.settings(now_command)
        return Good(
            now_command,
            {name: settings[name] for name in self._order.settings if name in settings},
            {} if boot is None else on_purpose(parts.journal, boot, ()),
            proved_now(parts.journal),
        )

    def _write(self, good: Good, state: ServerState) -> int:
        order, parts = self._order, self._parts
        return parts.journal.open(
            order.kind,
            self._boot_id,
            order.actor,
            written_change(order.settings, order.command, state.identity, self._owned),
            written_good(good),
            parts.clock.now(),
            lane="cold",
            undoes=order.undoes,
            campaign_id=order.campaign_id,
        )

    # ------------------------------------------------------------------ forward

    async def _go(self, good: Good, state: ServerState) -> Proof:
        parts, course, order = self._parts, self._course, self._order
        assert self._entry is not None
        held = await held_by(parts, self._owned, state.running)
        if state.running:
            end = close_in_haste if order.urgent else close_and_drain
            self._lost = await end(parts, course, self._keeper) or 0
        # The engine may end from here on, so that the note of it comes first.
        parts.journal.mark(self._entry, "applied", parts.clock.now())
        self._stopped = True
        course.gate_closed()
        await stop(parts, course, urgent=order.urgent)
        await release(parts, course, self._owned, held)
        self._keeper.begin()
        self._starts += 1
        await self._start.begin(order.command)
        proof = await self._start.prove(
            Begun(
                order.command,
                order.settings,
                self._hot(good),
                self._proved(good),
                order.kind == "trial" and not same(order.command, good.command),
                restart_actor(self._entry),
            )
        )
        parts.journal.mark(self._entry, "verified", parts.clock.now(), self._figures(proof))
        await open_gate(parts, course, self._keeper)
        self._let_in = True
        await self._watch()
        return proof

    def _hot(self, good: Good) -> Values:
        if self._order.hot is not None:
            return self._order.hot
        named = () if same(self._order.command, good.command) else self._order.settings
        return {name: value for name, value in good.hot.items() if name not in named}

    def _proved(self, good: Good) -> Proved | None:
        """What is to serve by promotion: a rollback brings back what did so before the restarts it takes back."""
        undoes = self._order.undoes
        return good.proved if not undoes else proved_of(self._parts.journal.entry(undoes[-1]))

    async def _watch(self) -> None:
        parts = self._parts
        if parts.judges.watch is None or self._order.urgent:
            return  # of a dead engine nothing is better than what serves now
        deadline = parts.clock.now() + parts.settings.watch_seconds
        while parts.clock.now() < deadline:
            trouble = await parts.judges.watch()
            state = await self._start.look()
            if trouble is None and state is not None and not state.running and not state.starting:
                trouble = "the engine ended" if state.reason is None else f"the engine ended ({state.reason})"
            if trouble is not None:
                raise PhaseFailed("open", f"not good for its users: {trouble}")
            await parts.clock.sleep(1.0)

    async def _finish(self, good: Good, proof: Proof) -> RestartResult:
        """It serves: make it what the next start uses, unless it is a trial; then close the journal."""
        order = self._order
        remarks = list(proof.remarks)
        if self._lost:
            remarks.append(f"{self._lost} requests did not finish in time and were ended")
        back_home = same(order.command, good.command)
        try:
            if order.kind != "trial" or back_home:
                await self._parts.server.keep(order.command)
                self._close("done", proof)
            if order.undoes and self._proved(good) is None and self._parts.journal.promoted() is not None:
                self._parts.journal.clear_promoted()
            if self._trial is not None:
                self._end_trial("the next restart took its place")
        except (ServerError, StoreError) as error:
            # It serves, and the journal says `verified`: recovery completes what is left.
            self._parts.alert(f"the restart serves but is not completed yet: {error}")
            remarks.append(str(error))
        return self._result("served", "open", "; ".join(["the new command serves", *remarks]), proof)

    async def _promote_in_place(
        self, good: Good, command: LaunchCommand, state: ServerState
    ) -> RestartResult:
        """What serves as a trial is to stay: no restart, only what the next start uses."""
        parts = self._parts
        assert self._trial is not None
        if not await parts.probe.healthy():
            return self._result("refused", "preflight", "the trial that is to stay is not well")
        self._entry = self._write(good, state)
        shown = self._trial.effective or {}
        proof = Proof(dict(shown.get("settings") or {}), shown.get("accuracy", "not_asked"), ())
        try:
            parts.journal.mark(self._entry, "applied", parts.clock.now())
            parts.journal.mark(self._entry, "verified", parts.clock.now(), self._figures(proof))
            await parts.server.keep(command)
        except (ServerError, StoreError) as error:
            # Closed now: left verified, recovery would make the promotion that was refused. The trial stays one.
            self._close("undone", None, f"the trial that serves could not be kept: {error}")
            return self._result("refused", "open", f"the trial that serves could not be kept: {error}")
        remarks = []
        try:
            await self._promote_hot(self._entry)
            parts.journal.close(self._entry, "done", parts.clock.now(), "what served as a trial stays")
            self._end_trial(f"promoted by entry {self._entry}")
        except (EngineError, StoreError) as error:
            # It is kept, and the journal says `verified`: recovery completes what is left.
            parts.alert(f"the promotion stands but is not completed yet: {error}")
            remarks.append(str(error))
        reason = "; ".join(["the trial stays: no restart was needed", *remarks])
        return self._result("served", "open", reason, proof)

    async def _promote_hot(self, entry: int) -> None:
        parts = self._parts
        proved = proved_now(parts.journal)
        if proved is not None:
            await set_again(
                parts.control,
                parts.journal,
                proved.values,
                proved,
                trial=False,
                actor=restart_actor(entry),
                now=parts.clock.now(),
            )

    # ------------------------------------------------------------------ back

    async def _back(self, good: Good, failed: PhaseFailed) -> RestartResult:
        """One return to the last known good; nothing more is tried after it."""
        parts, course = self._parts, self._course
        parts.say(f"{failed.phase}: failed: {failed}")
        tail, sign = self._start.tail, self._start.sign
        if not self._stopped:
            with contextlib.suppress(EngineError):
                await self._keeper.open()
            course.gate_open()
            self._close("undone", None, f"nothing was stopped: {failed}")
            return self._result("refused", failed.phase, str(failed), failed=failed)
        if failed.phase == "stop" and await spared(parts, course, self._keeper, self._identity):
            self._close("undone", None, f"nothing was stopped: {failed}", failed_in="stop")
            return self._result("refused", "stop", f"{failed}; it serves on", failed=failed)
        outcome: Outcome = "returned"
        reason = str(failed)
        kept: Sequence[str] = tail
        stands: str | None = None
        second = await self._return(good)
        if second is None:
            reason += "; the last known good serves again"
        else:
            kept = (*tail[-50:], *self._start.tail[-100:])
            stands = await give_up(parts, course, self._keeper, good, second)
            if stands is None:
                reason += (
                    f"; the last known good serves again, though not as it should ({second.phase}): {second}"
                )
                parts.alert(reason)
            else:
                outcome = "down"
                reason += f"; the last known good did not come back either ({second.phase}): {second}"
                parts.alert(f"{stands}: {reason}; the daemon tries nothing more")
            course.gate_open()
        self._close(
            "undone",
            None,
            f"{failed.phase}: {reason}",
            log=list(kept),
            failed_in=failed.phase,
            left_down=stands == NOTHING,
        )
        if self._trial is not None:
            self._end_trial("a later restart failed")
        return self._result(outcome, failed.phase, reason, failed=failed, log=tuple(kept), sign=sign)

    async def _return(self, good: Good) -> PhaseFailed | None:
        """Start the last known good; returns what kept it from serving, or None."""
        parts = self._parts
        try:
            await end_failed(parts, self._course, self._keeper, self._owned, let_in=self._let_in)
            self._starts += 1
            failed_start, self._start = self._start, Start(parts, self._course, self._locks.take_new)
            self._start.accuracy = failed_start.accuracy
            await start_good(parts, self._course, self._keeper, good, self._start, self._entry or 0)
        except PhaseFailed as second:
            return second
        except (ServerError, EngineError, StoreError) as error:
            return PhaseFailed(self._course.phase, str(error))
        except Exception as error:
            return PhaseFailed(self._course.phase, f"a fault of the program: {error!r}")
        try:
            await parts.server.keep(good.command)
        except ServerError as error:
            parts.alert(f"the last known good serves, but it is not what the next start would use: {error}")
        return None

    # ------------------------------------------------------------------ the record

    def _figures(self, proof: Proof | None, **more: Any) -> dict[str, Any]:
        # With what the start showed: a promotion of it in place proves nothing anew.
        shown = {} if proof is None else {"settings": dict(proof.effective), "accuracy": proof.accuracy}
        return {**shown, **evidence(self._course.seconds, self._course.down_seconds, self._starts, **more)}

    def _close(
        self,
        outcome: Literal["done", "undone"],
        proof: Proof | None,
        reason: str | None = None,
        **more: Any,
    ) -> None:
        if self._entry is None:
            return
        try:
            self._parts.journal.close(
                self._entry,
                outcome,
                self._parts.clock.now(),
                reason,
                effective=self._figures(proof, **more),
            )
        except StoreError as error:
            self._parts.alert(f"journal entry {self._entry} stays open, recovery closes it: {error}")

    def _end_trial(self, why: str) -> None:
        assert self._trial is not None
        with contextlib.suppress(StoreError):
            self._parts.journal.close(self._trial.id, "undone", self._parts.clock.now(), why)

    def _result(
        self,
        outcome: Outcome,
        phase: Phase,
        reason: str,
        proof: Proof | None = None,
        *,
        failed: PhaseFailed | None = None,
        log: tuple[str, ...] = (),
        sign: str | None = None,
    ) -> RestartResult:
        return RestartResult(
            outcome,
            phase,
            reason,
            effective={} if proof is None else proof.effective,
            seconds=dict(self._course.seconds),
            down_seconds=self._course.down_seconds,
            own_seconds=self._course.own_seconds,
            entry_id=self._entry,
            mismatches=() if failed is None else failed.mismatches,
            accuracy=self._start.accuracy if proof is None else proof.accuracy,
            sign=sign,
            log=log,
        )
