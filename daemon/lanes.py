"""The hot and the host lane of one campaign as one: an engine whose knobs include those of the host it runs on.

The engine's plugin keeps the lease for both. The host has none of its own, so what a trial set there is put back as
soon as the plugin shows that its lease ran out, or can no longer be asked and it must have. A daemon that died in
between finds the open entries of the host lane in the journal when it comes back (`change.host_steps.recover_host`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, Self

import structlog

from change.choices import Options, number
from change.engine import EngineControl, EngineError, EngineState, KnobAnswer, RequestPage, StaleEpoch, Values
from change.host import HostChange, HostError
from change.host_knobs import ENGINE_KNOBS, HOST_KNOBS
from change.host_steps import InForceAlready, begin_trial, change_host, rollback_host
from change.journal import Journal
from change.steps import ChangeRefused
from daemon.host_mark import config_mark, config_text
from daemon.host_side import HostSide

HALF_SET = ""
"""Stands for the value of a knob that was being set when the host failed."""

log = structlog.get_logger(__name__)


class LaneControl:
    """An `EngineControl` that sets the host's knobs too; the caller holds the engine's lock, and the node's."""

    def __init__(
        self,
        engine: EngineControl,
        side: HostSide,
        journal: Journal,
        clock: Callable[[], float],
        state: EngineState,
        options: Options,
    ) -> None:
        """Begin with what is in force, the first of each knob's `options`; use `opened` to read them."""
        self._engine = engine
        self._host = side.hand
        self._boot_id = side.boot_id()
        self._journal = journal
        self._clock = clock
        self._engine_boot_id = state.boot_id
        self._options = options
        self._base = {knob: texts[0] for knob, texts in options.items()}
        self._base_mark = state.mark or ""
        self._now = dict(self._base)
        self._seen: dict[str, str | None] = dict(self._base)
        self._undo: dict[str, Mapping[str, object]] = {}
        self._entries: dict[str, int] = {}
        self._forgotten: dict[str, str | None] = {}
        self._leased_until: float | None = None
        self._leased_epoch: int | None = None
        self._found = dict(state.values)
        self._kept = False

    @classmethod
    async def opened(
        cls,
        engine: EngineControl,
        side: HostSide,
        journal: Journal,
        clock: Callable[[], float],
        names: Sequence[str],
    ) -> Self:
        """Look which knobs can be changed: those of `names`, or the engine's own threads and pages if none are named.

        Raises `EngineError` if the engine cannot be asked, knows no marks, or the host cannot be read.
        """
        state = await engine.state()
        if state.mark is None:
            raise EngineError(
                f"the engine's plugin {state.plugin} is too old for the host lane: install the one of this version"
            )
        try:
            found = await side.hand.choices()
        except HostError as error:
            raise EngineError(f"the host lane cannot be read: {error}") from error
        wanted = names or ENGINE_KNOBS
        options = {knob: texts for knob, texts in found.items() if knob in wanted and len(texts) > 1}
        return cls(engine, side, journal, clock, state, options)

    @property
    def node_wide(self) -> bool:
        """Whether a knob of the whole node is among them."""
        return any(HOST_KNOBS[knob].scope == "node" for knob in self._options)

    @property
    def options(self) -> Options:
        """The host's knobs with their texts, in the order of their numbers."""
        return self._options

    # The port.

    async def state(self) -> EngineState:
        """Read the plugin's state with the host's knobs in it; a trial's host values whose lease is over go back.

        Raises `EngineError` too if they cannot be put back: the next call tries again.
        """
        try:
            state = await self._engine.state()
        except EngineError:
            if self._leased_until is not None and self._clock() > self._leased_until:
                await self._return("the lease must have run out", unasked=True)
            raise
        if state.boot_id != self._engine_boot_id:
            await self._return("the engine has restarted", unasked=True)
        elif self._leased_until is not None and state.mark != self._mark(self._now):
            await self._return("the engine's lease ran out", unasked=True)
        return replace(
            state,
            values={**state.values, **self._places(self._seen)},
            ceilings={**state.ceilings, **{k: float(len(texts) - 1) for k, texts in self._options.items()}},
            floors={**state.floors, **dict.fromkeys(self._options, 0.0)},
            options=self._options,
        )

    async def set_knobs(
        self,
        values: Values,
        *,
        if_epoch: int,
        lease_seconds: float | None,
        revert_to: Values | None = None,
        mark: str | None = None,
    ) -> KnobAnswer:
        """Set the host's knobs and the engine's own; see `EngineControl`. `mark` is this class's own to give.

        A config of the host is in the journal with its undo before it is first set. Where the engine does not follow,
        the host goes back too.
        """
        hot, target = self._parted(values, self._base if lease_seconds is None else self._now)
        back = None if revert_to is None else self._parted(revert_to, self._base)[0]
        if target == self._base and (lease_seconds is None or self._now == self._base):
            return await self._go_back(hot, values, if_epoch, lease_seconds, back)
        if target != self._now:
            if_epoch = await self._go(target, if_epoch, back or {})
        try:
            answer = await self._engine.set_knobs(
                hot or await self._any(),
                if_epoch=if_epoch,
                lease_seconds=lease_seconds,
                revert_to=back,
                mark=self._mark(target),
            )
        except EngineError:
            await self._return("the engine did not take the change", unasked=True)
            raise
        if answer.status == "refused":
            await self._return("the engine refused the change", unasked=True)
        else:
            self._leased_until = None if lease_seconds is None else self._clock() + lease_seconds
            self._leased_epoch = None if lease_seconds is None else answer.epoch
        return self._answer(answer, values)

    async def requests(self, since: int) -> RequestPage:
        """Read finished requests."""
        return await self._engine.requests(since)

    async def gate(
        self, state: Literal["open", "closed"], *, lease_seconds: float, retry_after: float
    ) -> None:
        """Open or close the engine to new requests."""
        await self._engine.gate(state, lease_seconds=lease_seconds, retry_after=retry_after)

    # What a campaign does besides.

    def forget(self, values: Values, now: float, reason: str | None) -> None:
        """Close the journal entry of a host config that is tried no more; raises `StoreError`.

        While something of it may be in force still, the entry stays open: its undo is the way back.
        """
        self._forgotten[config_text(self._parted(values, self._base)[1])] = reason
        self._close_forgotten(now)

    async def keep(
        self, values: Values, *, actor: str, now: float, campaign_id: int | None
    ) -> tuple[dict[str, float], str | None]:
        """Make the host's part of `values` the incumbent's, journaled as a promotion of its own.

        Returns the engine's own part, which is left to do, and why the host's part does not hold, or None. Raises
        `EngineError`, `ChangeRefused` or `StoreError` as the change of a host does.
        """
        hot, target = self._parted(values, self._base)
        changes = [HostChange(knob, text) for knob, text in target.items() if text != self._base[knob]]
        if not changes:
            return hot, None
        await self._return("its values are made the incumbent's")
        # Recovery would put an entry that stays open back over what is promoted now.
        self._close_forgotten(now)
        try:
            entry = await change_host(
                self._host,
                self._journal,
                changes,
                boot_id=self._boot_id,
                kind="promotion",
                actor=actor,
                now=now,
                campaign_id=campaign_id,
            )
        except InForceAlready:
            # Somebody else set it meanwhile: it holds, and there is nothing of ours to take back.
            self._stand_on(target)
            return hot, None
        except HostError as error:
            raise EngineError(str(error)) from error
        if entry.outcome != "done":
            return hot, str(entry.reason)
        self._kept = True
        self._stand_on(target)
        return hot, None

    async def drop(self, incumbent: Values, *, actor: str, now: float) -> None:
        """Take the kept values back, if any are; raises `EngineError`, `ChangeRefused` or `StoreError`."""
        target = self._parted(incumbent, self._base)[1]
        await self._return("the incumbent comes back")
        if target == self._base:
            return
        try:
            if self._kept:
                await rollback_host(self._host, self._journal, 1, now, boot_id=self._boot_id, actor=actor)
        except HostError as error:
            raise EngineError(str(error)) from error
        self._kept = False
        self._stand_on(target)

    # Inside.

    def _close_forgotten(self, now: float) -> None:
        """Close what is tried no more, as far as the undo of none of it is needed."""
        current = config_text(self._now)
        for key, reason in list(self._forgotten.items()):
            # A config that is wholly in force has an entry, and so an undo, of its own.
            replaced = self._now == self._base or (current != key and current in self._entries)
            if key in self._entries and not replaced:
                continue
            if key in self._entries:
                self._journal.close(self._entries[key], "undone", now, reason)
                del self._entries[key]
            del self._forgotten[key]

    async def _go(self, target: Mapping[str, str], if_epoch: int, back: Values) -> int:
        """Set the host as `target`, written down first; nothing is touched if the engine is at another epoch.

        The engine serves the incumbent with no lease meanwhile: pages may take longer to move than a lease lasts.
        Returns the epoch it is at then.
        """
        state = await self._engine.state()
        if state.epoch != if_epoch and not self._ran_out(state, if_epoch):
            raise StaleEpoch(
                f"epoch {if_epoch} is stale: the engine is at {state.epoch}; read the state again",
                state.epoch,
            )
        epoch = state.epoch
        if state.lease_remaining_seconds is not None:
            answer = await self._engine.set_knobs(
                back or self._found, if_epoch=epoch, lease_seconds=None, mark=self._base_mark
            )
            if answer.status == "refused":
                await self._return("the engine refused the incumbent", unasked=True)
                raise EngineError(f"the engine refused the incumbent: {answer.reason}")
            epoch = answer.epoch
        key = config_text(target)
        self._forgotten.pop(key, None)
        if key not in self._entries and target != self._base:
            # The undo is read while the incumbent is in force.
            await self._return("another config is tried")
            changes = [HostChange(knob, text) for knob, text in target.items() if text != self._base[knob]]
            try:
                entry = await begin_trial(
                    self._host,
                    self._journal,
                    changes,
                    boot_id=self._boot_id,
                    actor="campaign",
                    now=self._clock(),
                )
            except (HostError, ChangeRefused) as error:
                raise EngineError(str(error)) from error
            self._entries[key] = entry.id
            self._undo.update({knob: undo["with"] for knob, undo in entry.undo.items()})
        try:
            await self._move(target)
        except HostError as error:
            await self._return(str(error), unasked=True)
            raise EngineError(f"the host did not take {key}: {error}") from error
        return epoch

    def _ran_out(self, state: EngineState, if_epoch: int) -> bool:
        """Whether all that happened since `if_epoch` is that our own lease ran out: nobody else changed the engine."""
        return (
            if_epoch == self._leased_epoch == state.epoch - 1
            and state.boot_id == self._engine_boot_id
            and state.lease_remaining_seconds is None
            and state.mark == self._base_mark
        )

    async def _go_back(
        self, hot: Values, values: Values, if_epoch: int, lease: float | None, back: Values | None
    ) -> KnobAnswer:
        """The incumbent's host; the engine goes first, as its way back takes a millisecond."""
        self._leased_until = None
        try:
            own = hot or await self._any()
            try:
                answer = await self._engine.set_knobs(
                    own, if_epoch=if_epoch, lease_seconds=lease, revert_to=back, mark=self._base_mark
                )
            except StaleEpoch as stale:
                if lease is not None or not self._ran_out(await self._engine.state(), if_epoch):
                    raise
                answer = await self._engine.set_knobs(
                    own, if_epoch=stale.epoch, lease_seconds=None, mark=self._base_mark
                )
            self._leased_epoch = None if lease is None else answer.epoch
        finally:
            await self._return("the incumbent comes back")
        return self._answer(answer, values)

    async def _any(self) -> dict[str, float]:
        """A value the engine has already: a call needs one, and a mark alone is none."""
        return dict(list((await self._engine.state()).values.items())[:1])

    async def _return(self, why: str, *, unasked: bool = False) -> None:
        """Put the incumbent's host values in force; raises `EngineError` if the host fails."""
        self._leased_until = None
        if self._now == self._base:
            return
        if unasked:
            log.warning("the host goes back", why=why)
        try:
            await self._move(self._base)
        except HostError as error:
            # Looked at again with the next read of the state.
            self._leased_until = self._clock()
            raise EngineError(f"the host could not be put back: {error}") from error

    async def _move(self, target: Mapping[str, str]) -> None:
        """From what is in force to `target`: what goes back first, the last set first."""
        for knob in reversed(list(target)):
            if self._now[knob] != target[knob] == self._base[knob]:
                self._now[knob] = HALF_SET
                self._seen[knob] = (await self._host.restore(knob, dict(self._undo[knob]))).value
                self._now[knob] = target[knob]
        for knob, text in target.items():
            if self._now[knob] != text:
                self._now[knob] = HALF_SET
                self._seen[knob] = (await self._host.apply(HostChange(knob, text))).value
                self._now[knob] = text

    def _stand_on(self, target: Mapping[str, str]) -> None:
        """`target` is in force for good."""
        mark = self._mark(target)
        self._base, self._base_mark = dict(target), mark
        self._now, self._seen = dict(target), dict(target)
        self._undo.clear()

    def _parted(
        self, values: Values, otherwise: Mapping[str, str]
    ) -> tuple[dict[str, float], dict[str, str]]:
        """The engine's own values, and the whole config of the host with what is not named as in `otherwise`."""
        hot = {name: value for name, value in values.items() if name not in self._options}
        host = {
            knob: texts[int(values[knob])] if knob in values else otherwise[knob]
            for knob, texts in self._options.items()
        }
        return hot, host

    def _answer(self, answer: KnobAnswer, asked: Values) -> KnobAnswer:
        """The engine's answer with the host's part; `asked` are the values of the whole call."""
        named = {name: value for name, value in asked.items() if name in self._options}
        seen = self._places(self._seen)
        effective = {name: answer.effective[name] for name in asked if name in answer.effective}
        return replace(
            answer,
            requested={**{n: v for n, v in answer.requested.items() if n in asked}, **named},
            effective={**effective, **{name: seen[name] for name in named}},
        )

    def _places(self, texts: Mapping[str, str | None]) -> dict[str, float]:
        return {knob: number(texts[knob], known) for knob, known in self._options.items()}

    def _mark(self, target: Mapping[str, str]) -> str:
        """What the plugin is told of this config of the host."""
        return (
            self._base_mark if target == self._base else config_mark(target, self._options, self._base_mark)
        )
