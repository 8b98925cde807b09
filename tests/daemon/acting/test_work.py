"""Work of runs: in order within one, beside each other otherwise; what is late is never cut off, faults stay inside."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from daemon.acting.deed import RunContext
from daemon.acting.hands import ActingHands, Hindrance
from daemon.acting.triggers import MOST_WAITING, Triggers
from daemon.acting.work import Workers
from rules.actions import Action, ActionRefused, CaptureKind, Outcome, Plan
from rules.playbook.messages import DoAct, PlanAct, Result, TakeCapture, Trigger, UndoAct

ACT = Action("set_knobs", {"max_num_seqs": 1}, timeout_seconds=0.05)
PLAN = Plan("p", "engine", True, {})
RUN = RunContext("run-1", "x")


class SlowHands(ActingHands):
    """Hands whose every move takes its time, and which note when each begins and ends."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.said: list[str] = []
        self.error: Exception | None = None

    def of(self, context: RunContext, hindrance: Hindrance = lambda: None) -> SlowHands:
        return self

    async def plan(self, action: Action, now: float) -> Plan:
        raise ActionRefused("not here")

    async def act(self, action: Action, plan: Plan, now: float) -> Outcome:
        return await self._move("act")

    async def undo(self, action: Action, undo: Mapping[str, Any], now: float) -> Outcome:
        return await self._move("undo")

    async def capture(self, kind: CaptureKind, seconds: float, now: float) -> Outcome:
        return await self._move(kind)

    async def _move(self, what: str) -> Outcome:
        self.said.append(f"{what} begins")
        await asyncio.sleep(self.seconds)
        if self.error is not None:
            raise self.error
        self.said.append(f"{what} ends")
        return Outcome(True, what)


async def settled(workers: Workers) -> list[Result]:
    async with asyncio.timeout(10):
        await workers.finish(10.0)
    return workers.results()


def test_a_refusal_is_no_failure_and_a_fault_stays_inside_its_run() -> None:
    async def story() -> list[Result]:
        hands = SlowHands()
        workers = Workers(hands, lambda: 0.0)
        workers.begin(PlanAct(1, 1, "s", ACT), RUN)
        hands.error = ZeroDivisionError()
        workers.begin(DoAct(2, 1, "s", 1, ACT, PLAN), RUN)
        return await settled(workers)

    refused, failed = sorted(asyncio.run(story()), key=lambda one: one.run_id)
    assert (refused.refused, refused.outcome) == ("not here", None)
    assert failed.outcome is not None
    assert not failed.outcome.ok
    assert "ZeroDivisionError" in failed.outcome.text


def test_what_is_late_is_told_and_its_undo_waits_for_its_end(monkeypatch: Any) -> None:
    monkeypatch.setattr("daemon.acting.work.MARGIN_SECONDS", 0.0)

    async def story() -> tuple[list[Result], list[str]]:
        hands = SlowHands(0.3)
        workers = Workers(hands, lambda: 0.0)
        workers.begin(DoAct(1, 1, "s", 1, ACT, PLAN), RUN)
        await asyncio.sleep(0.15)
        early = workers.results()
        workers.begin(UndoAct(1, 2, 1, ACT, {}), RUN)
        return [*early, *await settled(workers)], hands.said

    results, said = asyncio.run(story())
    assert said == ["act begins", "act ends", "undo begins", "undo ends"]
    assert results[0].outcome is not None
    assert "goes on" in results[0].outcome.text
    assert [one.call for one in results] == [1, 1, 2, 2]


def test_runs_do_not_wait_for_each_other() -> None:
    async def story() -> list[str]:
        hands = SlowHands(0.05)
        workers = Workers(hands, lambda: 0.0)
        workers.begin(TakeCapture(1, 1, "s", "plog", 1.0), RUN)
        workers.begin(TakeCapture(2, 1, "s", "dmesg", 1.0), RUN)
        await settled(workers)
        return hands.said

    assert asyncio.run(story())[:2] == ["plog begins", "dmesg begins"]


def test_at_the_end_of_the_daemon_nothing_is_left_hanging() -> None:
    async def story() -> bool:
        workers = Workers(SlowHands(60.0), lambda: 0.0)
        workers.begin(DoAct(1, 1, "s", 1, ACT, PLAN), RUN)
        await asyncio.sleep(0)
        await workers.finish(0.05)
        await asyncio.sleep(0)
        return workers.busy

    assert asyncio.run(story()) is False


class Silent:
    """An Alertmanager that never answers."""

    async def suppressed(self, fingerprint: str, now: float) -> bool | None:
        await asyncio.Event().wait()
        return None


def test_a_flood_of_alerts_is_bounded() -> None:
    async def story() -> int:
        triggers = Triggers(Silent(), lambda: 0.0)
        for number in range(10_000):
            triggers.add(Trigger("x", "alertmanager", fingerprint=f"{number}"))
        waiting = len(triggers._asking)
        await triggers.finish()
        return waiting

    assert asyncio.run(story()) == MOST_WAITING
