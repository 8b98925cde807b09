"""A daemon that dies at any point of any change, and an engine that restarts: what holds after recovery.

Crashes come before and after every call of the engine and every write of the journal, in any order, also inside the
recovery itself. The model knows only what may be true: after `recover` the engine serves the incumbent, or what was
being put in its place if that is closed as done; no entry is open; and what is promoted is what serves.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, Literal, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from change.apply import ChangeRefused, change, detach, reapply_promoted, recover, rollback
from change.engine import EngineState, EngineUnreachable, KnobAnswer, RequestPage, Values
from change.journal import Journal, JournalUnwritable
from store import Store, open_store
from store.models import JournalEntry, Launch, Promoted
from tests.change.plain_engine import LAUNCH, PlainEngine

T = TypeVar("T")
NOW = 1_700_000_000.0


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Nothing here ever waits, so that no event loop is needed."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise AssertionError("it waits for something")


class Killed(BaseException):
    """The daemon is gone: nothing in it runs any more, least of all an exception handler."""


class Fate:
    """Counts the points where something can go wrong and lets it go wrong at the chosen one."""

    def __init__(self) -> None:
        self.left = -1
        self.dead = False
        self.how: Callable[[str], BaseException] = Killed

    def plan(self, point: int, how: Callable[[str], BaseException]) -> None:
        self.left, self.how, self.dead = point, how, False

    def pass_by(self, where: str) -> None:
        if self.dead:
            raise Killed(where)
        if self.left == 0:
            self.left = -1
            error = self.how(where)
            self.dead = isinstance(error, Killed)
            raise error
        self.left -= 1


class MortalControl:
    """The engine as a mortal daemon sees it: it may die just before or just after each call."""

    def __init__(self, engine: PlainEngine, fate: Fate) -> None:
        self.engine, self.fate = engine, fate

    async def state(self) -> EngineState:
        self.fate.pass_by("before state")
        state = await self.engine.state()
        self.fate.pass_by("after state")
        return state

    async def set_knobs(
        self,
        values: Values,
        *,
        if_epoch: int,
        lease_seconds: float | None,
        revert_to: Values | None = None,
        mark: str | None = None,
    ) -> KnobAnswer:
        self.fate.pass_by("before set_knobs")
        answer = await self.engine.set_knobs(
            values, if_epoch=if_epoch, lease_seconds=lease_seconds, revert_to=revert_to, mark=mark
        )
        self.fate.pass_by("after set_knobs")
        return answer

    async def requests(self, since: int) -> RequestPage:
        raise NotImplementedError

    async def gate(
        self, state: Literal["open", "closed"], *, lease_seconds: float, retry_after: float
    ) -> None:
        raise NotImplementedError


class MortalJournal(Journal):
    """The journal of a mortal daemon: it may die just before or just after each write."""

    def __init__(self, store: Store, engine: str, fate: Fate) -> None:
        super().__init__(store, engine)
        self.fate = fate

    def open(self, *args: Any, **kwargs: Any) -> int:
        self.fate.pass_by("before open")
        entry = super().open(*args, **kwargs)
        self.fate.pass_by("after open")
        return entry

    def mark(self, *args: Any, **kwargs: Any) -> None:
        self.fate.pass_by("before mark")
        super().mark(*args, **kwargs)
        self.fate.pass_by("after mark")

    def close(self, *args: Any, **kwargs: Any) -> None:
        self.fate.pass_by("before close")
        super().close(*args, **kwargs)
        self.fate.pass_by("after close")


def unreachable(where: str) -> BaseException:
    return (
        JournalUnwritable(where)
        if where.split()[1] in ("open", "mark", "close")
        else EngineUnreachable(where)
    )


POINTS = st.integers(0, 16)
FAULTS = st.sampled_from([Killed, unreachable])
CONFIGS = st.fixed_dictionaries(
    {},
    optional={
        "batch_max_tokens": st.sampled_from([256.0, 512.0, 1024.0, 2048.0]),
        "max_num_seqs": st.sampled_from([16.0, 64.0, 256.0]),
        "watermark": st.sampled_from([0.0, 0.1]),
    },
).filter(bool)

# One store for all runs, emptied for each: opening one costs more than a whole run.
STORE = open_store("sqlite:///:memory:")


class Crashes(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        with STORE.session() as session:
            for table in (JournalEntry, Launch, Promoted):
                session.query(table).delete()
        self.engine = PlainEngine()
        self.fate = Fate()
        self.journal = MortalJournal(STORE, "e", self.fate)
        self.control = MortalControl(self.engine, self.fate)
        self.incumbent = dict(LAUNCH)

    def live(self, act: Callable[[], Coroutine[Any, Any, Any]], point: int, fault: Any) -> None:
        """Do something that may go wrong at a point, with a new daemon that recovers afterwards."""
        self.fate.plan(point, fault)
        with contextlib.suppress(Killed, EngineUnreachable, JournalUnwritable, ChangeRefused):
            run(act())
        self.fate.plan(-1, Killed)

    def settle(self, point: int, fault: Any) -> None:
        """Recover, possibly failing at a point of the recovery, then once more in peace."""
        self.live(lambda: recover(self.control, self.journal, NOW), point, fault)
        run(recover(self.control, self.journal, NOW))

    def learn(self, known: int) -> None:
        """What the journal says was done since entry `known` is what serves now."""
        for entry in reversed(self.journal.last(50)):
            if entry.id > known and entry.outcome == "done":
                self.incumbent.update(entry.change)

    def newest(self) -> int:
        return max((entry.id for entry in self.journal.last(1)), default=0)

    @rule(
        values=CONFIGS,
        kind=st.sampled_from(["manual", "promotion"]),
        point=POINTS,
        fault=FAULTS,
        again=POINTS,
        idle=st.sampled_from([0, 60]),
    )
    def change(
        self,
        values: dict[str, float],
        kind: Literal["manual", "promotion"],
        point: int,
        fault: Any,
        again: int,
        idle: int,
    ) -> None:
        known = self.newest()
        self.live(
            lambda: change(self.control, self.journal, values, kind=kind, actor="cli", now=NOW), point, fault
        )
        self.engine.now += idle
        self.settle(again, fault)
        self.learn(known)

    @rule(
        values=CONFIGS,
        marks=st.integers(0, 2),
        lease=st.sampled_from([None, 20.0]),
        again=POINTS,
        fault=FAULTS,
    )
    def die_in_a_trial(
        self, values: dict[str, float], marks: int, lease: float | None, again: int, fault: Any
    ) -> None:
        """A campaign's daemon dies while a candidate serves."""
        before = run(self.engine.state())
        entry = Journal.open(
            self.journal, "trial", before.boot_id, "campaign 1", values, dict(before.values), NOW
        )
        try:
            run(
                self.engine.set_knobs(
                    values, if_epoch=before.epoch, lease_seconds=lease, revert_to=dict(before.values)
                )
            )
        except Exception as error:  # a candidate that the engine does not take is a trial too
            assert "must be" in str(error)
        for mark in ("applied", "verified")[:marks]:
            Journal.mark(self.journal, entry, mark, NOW)  # type: ignore[arg-type]
        self.settle(again, fault)

    @rule(n=st.integers(1, 3), point=POINTS, fault=FAULTS, again=POINTS)
    def rollback(self, n: int, point: int, fault: Any, again: int) -> None:
        known = self.newest()
        self.live(lambda: rollback(self.control, self.journal, n, NOW), point, fault)
        self.settle(again, fault)
        self.learn(known)

    @rule(point=POINTS, fault=FAULTS, again=POINTS)
    def detach(self, point: int, fault: Any, again: int) -> None:
        known = self.newest()
        self.live(lambda: detach(self.control, self.journal, NOW), point, fault)
        self.settle(again, fault)
        self.learn(known)
        if any(e.id > known and e.kind == "detach" and e.outcome == "done" for e in self.journal.last(5)):
            assert self.engine.values == self.engine.launch
            assert self.journal.promoted() is None

    @rule(values=CONFIGS, point=POINTS, again=POINTS, flags=st.booleans())
    def restart(self, values: dict[str, float], point: int, again: int, flags: bool) -> None:
        """The engine dies, perhaps in the middle of a change, and comes back, perhaps with other flags."""
        self.live(
            lambda: change(self.control, self.journal, values, kind="manual", actor="cli", now=NOW),
            point,
            Killed,
        )
        promoted = self.journal.promoted()
        self.engine.restart(**({"batch_max_tokens": 1024.0} if flags else {}))
        self.settle(again, Killed)
        assert self.engine.epoch == 0, "recovery has no business with a fresh engine"
        self.incumbent = dict(self.engine.launch)
        self.live(lambda: reapply_promoted(self.control, self.journal, NOW), point, Killed)
        self.settle(again, Killed)
        result = run(reapply_promoted(self.control, self.journal, NOW))
        if promoted is not None:
            self.incumbent.update(
                promoted.values if result.outcome in ("reapplied", "held", "nothing") else {}
            )
            same = promoted.launch == self.engine.launch
            assert result.outcome in (("reapplied", "held") if same else ("other_flags", "held"))

    @invariant()
    def nothing_is_open(self) -> None:
        assert self.journal.open_entries() == []

    @invariant()
    def the_engine_serves_the_incumbent_for_good(self) -> None:
        self.engine.now += 1000
        state = run(self.engine.state())
        assert dict(state.values) == self.incumbent
        assert state.lease_remaining_seconds is None

    @invariant()
    def what_is_promoted_serves_unless_changed_on_purpose(self) -> None:
        promoted = self.journal.promoted()
        if promoted is None or promoted.launch != self.engine.launch:
            return
        by_hand = {
            name
            for entry in self.journal.standing(self.engine.boot_id)
            if entry.kind == "manual"
            for name in entry.change
        }
        for name, value in promoted.values.items():
            assert name in by_hand or self.engine.values[name] == value, name


TestCrashes = Crashes.TestCase
TestCrashes.settings = settings(
    max_examples=40,
    stateful_step_count=6,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
