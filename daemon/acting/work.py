"""Carries out the commands of runs: those of one run one after another, those of several beside each other."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import structlog

from daemon.acting.deed import RunContext
from daemon.acting.hands import ActingHands
from rules.actions import ActionRefused, Outcome
from rules.playbook.messages import DoAct, PlanAct, Result, TakeCapture, UndoAct

PLAN_SECONDS = 30.0
MARGIN_SECONDS = 5.0
"""Over an action's own time-out, which its hand keeps itself where it can."""
CAPTURE_MARGIN_SECONDS = 60.0
FINISH_SECONDS = 10.0
"""What is under way when the daemon ends gets this long; after it the next start takes it back."""

Work = PlanAct | DoAct | UndoAct | TakeCapture
Heard = Callable[[Work, Result], None]

_log = structlog.get_logger("trimtab")


class Workers:
    """Begins work and hands out what came of it.

    Work that is late is told as failed and goes on to its end, as nothing may be cut off in the middle of a change: the
    next command of its run waits for that. What is late because its turn did not come is not begun any more. A profile
    changes nothing, and may be ended early.
    """

    def __init__(
        self,
        hands: ActingHands,
        clock: Callable[[], float],
        *,
        heard: Heard = lambda work, result: None,
        halted: Callable[[], str | None] = lambda: None,
        finish_profile_seconds: float = 600.0,
    ) -> None:
        """`clock` gives Unix seconds; `heard` is told of each result; `halted` is why nothing may be changed now."""
        self._hands = hands
        self._clock = clock
        self._heard = heard
        self._halted = halted
        self._finish_profile = finish_profile_seconds
        self._results: list[Result] = []
        self._last: dict[int, asyncio.Task[None]] = {}
        self._profiles: dict[int, asyncio.Task[None]] = {}

    @property
    def busy(self) -> bool:
        """Whether anything is under way."""
        return bool(self._last)

    def begin(self, work: Work, context: RunContext) -> None:
        """Begin it once what this run had begun before is over."""
        before = self._last.get(work.run_id)
        task = asyncio.create_task(
            self._carry_out(work, context, before, self._clock() + self._patience(work)),
            name=f"run {work.run_id} call {work.call}",
        )
        self._last[work.run_id] = task
        if isinstance(work, TakeCapture) and work.kind == "msprof":
            self._profiles[work.run_id] = task
        task.add_done_callback(lambda done: self._over(work.run_id, done))

    def end_profile(self, run_id: int) -> None:
        """End the profile of a run that gave way, if there is one; nobody is told what came of it."""
        task = self._profiles.get(run_id)
        if task is not None:
            task.cancel()

    def results(self) -> list[Result]:
        """What came since the last question, oldest first."""
        results, self._results = self._results, []
        return results

    def give_back(self, results: list[Result]) -> None:
        """Take results that could not be handed on, for the next question."""
        self._results = [*results, *self._results]

    async def finish(self, seconds: float = FINISH_SECONDS) -> None:
        """Wait a little for what is under way, then leave it."""
        tasks = {*self._last.values()}
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def _carry_out(
        self, work: Work, context: RunContext, before: asyncio.Task[None] | None, deadline: float
    ) -> None:
        late = False

        def hindrance() -> str | None:
            # The run waits for it no longer: it may have put its other acts back, or have ended.
            if late or self._clock() >= deadline:
                return "nothing was done: its turn came after its time was over"
            return self._halted()

        if before is not None:
            await asyncio.wait({before})
        doing = asyncio.create_task(self._result(work, self._hands.of(context, hindrance)))
        try:
            await asyncio.wait({doing}, timeout=self._patience(work))
            if not doing.done():
                late = True
                text = f"not over within {self._patience(work):.0f} s; it goes on and is waited for"
                self._tell(work, _result(work, outcome=Outcome(False, text)))
            self._tell(work, await doing)
        finally:
            if not doing.done():
                doing.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await doing

    async def _result(self, work: Work, hands: ActingHands) -> Result:
        now = self._clock()
        try:
            match work:
                case PlanAct():
                    return Result(work.run_id, work.call, plan=await hands.plan(work.action, now))
                case DoAct():
                    return _result(work, outcome=await hands.act(work.action, work.plan, now))
                case UndoAct():
                    return _result(work, outcome=await hands.undo(work.action, work.undo, now))
                case TakeCapture():
                    return _result(work, outcome=await hands.capture(work.kind, work.seconds, now))
        except ActionRefused as refused:
            return _result(work, refused=str(refused))
        except Exception as error:
            # A fault of the program ends this run and not the driver of all of them.
            _log.exception("a playbook's command failed", run=work.run_id)
            return _result(work, outcome=Outcome(False, f"a fault of the program: {error!r}"))

    def _patience(self, work: Work) -> float:
        match work:
            case PlanAct():
                return PLAN_SECONDS
            case DoAct() | UndoAct():
                return work.action.timeout_seconds + MARGIN_SECONDS
            case TakeCapture():
                more = self._finish_profile if work.kind == "msprof" else 0.0
                return work.seconds + CAPTURE_MARGIN_SECONDS + more

    def _tell(self, work: Work, result: Result) -> None:
        self._results.append(result)
        self._heard(work, result)

    def _over(self, run_id: int, task: asyncio.Task[None]) -> None:
        for tasks in (self._last, self._profiles):
            if tasks.get(run_id) is task:
                del tasks[run_id]


def _result(work: Work, *, outcome: Outcome | None = None, refused: str | None = None) -> Result:
    return Result(work.run_id, work.call, outcome=outcome, refused=refused)
