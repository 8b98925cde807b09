"""A start: the engine begun with its gate closed, followed through its load, and proved before anybody is let in."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from change.engine import EngineError, EngineState, Values
from change.restart.command import closed
from change.restart.course import Course
from change.restart.hot_values import Proved, set_again
from change.restart.milestones import Load
from change.restart.order import Accuracy, Phase
from change.restart.parts import Parts, PhaseFailed
from change.restart.ports import ProbeFailed
from change.restart.redaction import redactor
from change.server import LaunchCommand, ServerError, ServerState, Settings
from store import StoreError

BLIND_SECONDS = 300.0
"""How long a hand may be out of reach while a start is followed: the engine goes on without it, and a way back would
need it too."""


@dataclass(frozen=True, slots=True)
class Begun:
    """What is to be started: with which command, what it must show, and which hot values it gets back.

    `strict` fails for settings that are not in force, hot values that cannot be set and a store that cannot be written;
    a way back only says them, as nothing better is left than what it starts.
    """

    command: LaunchCommand
    settings: Settings
    hot: Values
    proved: Proved | None
    trial: bool
    actor: str
    strict: bool = True


@dataclass(frozen=True, slots=True)
class Proof:
    """A start that can be let in."""

    effective: Settings
    accuracy: Accuracy
    remarks: tuple[str, ...]


class Start:
    """One start of the engine; its log can be asked for after it failed."""

    def __init__(self, parts: Parts, course: Course, new_boot: Callable[[str], str | None]) -> None:
        """`new_boot` hears the id of the fresh engine as soon as it answers, to lock it; it returns what failed."""
        self._parts = parts
        self._course = course
        self._new_boot = new_boot
        self._position: str | None = None
        self._load: Load | None = None
        self._blind = False
        self.accuracy: Accuracy = "not_asked"

    @property
    def tail(self) -> tuple[str, ...]:
        """The last lines of its log."""
        return () if self._load is None else self._load.tail

    @property
    def sign(self) -> str | None:
        """The log signature that was seen last."""
        return None if self._load is None or self._load.sign is None else self._load.sign.id

    async def begin(self, command: LaunchCommand) -> None:
        """Begin it with the gate closed."""
        with self._course.during("start"):
            try:
                await self._parts.server.start(closed(command, self._parts.clock.now()))
            except ServerError as error:
                raise PhaseFailed("start", f"the engine could not be started: {error}") from error

    async def look(self) -> ServerState | None:
        """Look at the engine; None where its hand cannot say, which is no end of it."""
        try:
            state = await self._parts.server.look()
        except ServerError as error:
            if not self._blind:
                self._course.say(f"whether the engine runs is not known: {error}")
            self._blind = True
            return None
        self._blind = False
        return state

    async def prove(self, what: Begun) -> Proof:
        """Follow it to the point where the gate may open; raises `PhaseFailed`."""
        await self.load(what.command)
        await self._health(what.strict)
        await self._ask("probe", self._parts.probe.one_token, 1)
        await self._ask("warm_up", self._parts.probe.warm_up, self._parts.settings.warm_up_requests)
        if what.strict and self._parts.judges.golden(what.settings):
            await self._golden()
        effective, remarks = await self._effective(what)
        return Proof(effective, self.accuracy, tuple(remarks))

    async def load(self, command: LaunchCommand) -> None:
        """Follow the log until the engine runs and serves, has ended, or is overdue."""
        parts, course = self._parts, self._course
        with course.during("load"):
            load = self._load = Load(
                parts.settings.kind,
                parts.settings.step_seconds,
                parts.clock.now(),
                parts.judges.classify,
                redactor(command),
            )
            seen = parts.clock.now()
            while True:
                state = await self.look()
                seen = parts.clock.now() if state is not None else seen
                await self._read(load)
                if state is not None and not state.running and not state.starting:
                    raise PhaseFailed("load", f"{_ended(state)} before {load.step!r}; {load.why()}")
                if load.fatal is not None:
                    raise PhaseFailed("load", f"the engine died before {load.step!r}; {load.why()}")
                # Its own health says more than a line that another version may spell otherwise. In a rollout, though,
                # an old replica may be who says it.
                if state is not None and state.running and (load.serving or await parts.probe.healthy()):
                    return
                late = load.overdue(parts.clock.now())
                if late is not None:
                    said = "" if state is None or state.reason is None else f" ({state.reason})"
                    raise PhaseFailed("load", f"the engine hangs: {late}{said}; {load.why()}")
                if parts.clock.now() - seen >= BLIND_SECONDS:
                    raise PhaseFailed(
                        "load", f"whether it runs was not known for {BLIND_SECONDS:g} s; {load.why()}"
                    )
                await parts.clock.sleep(parts.settings.poll_seconds)

    async def _read(self, load: Load) -> None:
        try:
            part = await self._parts.server.log(self._position)
        except ServerError as error:
            self._course.say(f"the log cannot be read: {error}")
            return
        self._position = part.position
        for reached in load.feed(part.lines, self._parts.clock.now()):
            self._course.say(reached)

    async def _health(self, strict: bool) -> None:
        parts = self._parts
        with self._course.during("health"):
            deadline = parts.clock.now() + parts.settings.health_seconds
            trouble = "it does not say that it is well"
            while True:
                if await parts.probe.healthy():
                    try:
                        self._seen(await parts.control.state(), strict)
                        return
                    except EngineError as error:
                        trouble = f"its plugin does not answer: {error}"
                await self._alive("health")
                if parts.clock.now() >= deadline:
                    raise PhaseFailed(
                        "health", f"not well after {parts.settings.health_seconds:g} s: {trouble}"
                    )
                await parts.clock.sleep(parts.settings.poll_seconds)

    def _seen(self, state: EngineState, strict: bool) -> None:
        try:
            self._parts.journal.note_launch(state, self._parts.clock.now())
        except StoreError as error:
            if strict:
                raise
            self._course.say(f"what it started with is not noted: {error}")
        trouble = self._new_boot(state.boot_id)
        if trouble is not None:
            self._course.say(trouble)

    async def _ask(
        self, phase: Literal["probe", "warm_up"], send: Callable[[], Awaitable[None]], times: int
    ) -> None:
        with self._course.during(phase):
            for _ in range(times):
                try:
                    async with asyncio.timeout(self._parts.settings.probe_seconds):
                        await send()
                except (ProbeFailed, TimeoutError) as error:
                    text = str(error) or f"no answer within {self._parts.settings.probe_seconds:g} s"
                    await self._alive(phase)
                    raise PhaseFailed(phase, f"the engine does not answer a request: {text}") from error

    async def _golden(self) -> None:
        with self._course.during("accuracy"):
            self.accuracy = "failed"
            try:
                wrong = await self._parts.probe.golden()
            except ProbeFailed as error:
                raise PhaseFailed("accuracy", f"the golden prompts could not be asked: {error}") from error
            if wrong:
                raise PhaseFailed("accuracy", f"answers are not as expected: {'; '.join(wrong[:5])}")
            self.accuracy = "passed"

    async def _effective(self, what: Begun) -> tuple[Settings, list[str]]:
        """Compare what was asked with what is in force, and set the hot values again."""
        parts = self._parts
        with self._course.during("effective"):
            assert self._load is not None
            await self._read(self._load)
            effective = await parts.probe.effective(self._load.head)
            wrong = parts.judges.mismatches(what.settings, effective)
            text = "; ".join(map(str, wrong))
            if wrong and what.strict:
                raise PhaseFailed("effective", text, mismatches=tuple(wrong))
            remarks = [text] if text else []
            unread = sorted(set(what.settings) - set(effective))
            if unread:
                remarks.append(f"in force or not, nobody can tell: {', '.join(unread)}")
            if what.hot or (what.proved is not None and not what.trial):
                try:
                    left_out = await set_again(
                        parts.control,
                        parts.journal,
                        what.hot,
                        what.proved,
                        trial=what.trial,
                        actor=what.actor,
                        now=parts.clock.now(),
                    )
                except (EngineError, StoreError) as error:
                    if what.strict:
                        raise PhaseFailed("effective", f"the hot values cannot be set: {error}") from error
                    left_out = f"all, {error}"
                    parts.alert(f"the last known good serves without its hot values: {error}")
                if left_out is not None:
                    remarks.append(f"hot values left out: {left_out}")
            for remark in remarks:
                self._course.say(remark)
            return effective, remarks

    async def _alive(self, phase: Phase) -> None:
        state = await self.look()
        if state is not None and not state.running and not state.starting:
            if self._load is not None:
                await self._read(self._load)
            why = "" if self._load is None else f"; {self._load.why()}"
            raise PhaseFailed(phase, f"{_ended(state)}{why}")


def _ended(state: ServerState) -> str:
    """The end of a start in words, from its exit code and what its hand says of it."""
    text = _ended_with(state.exit_code)
    return text if state.reason is None else f"{text} ({state.reason})"


def _ended_with(exit_code: int | None) -> str:
    match exit_code:
        case None:
            return "the engine ended"
        case 0:
            return "the engine died under its server, which ended with code 0"
        case 1:
            return "the engine could not initialise and ended with code 1"
        case 2:
            return "the engine refused a flag and ended with code 2"
        case code:
            return (
                f"the engine was ended by signal {-code}"
                if code < 0
                else f"the engine ended with code {code}"
            )
