"""More replicas and traffic away, by real programs and by a scale: refused where there is nothing, and back again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from change.server import ServerError
from daemon.acting.deed import RunContext
from daemon.acting.replicas import Scale, ScaleUp, TrafficAway, kubernetes_scale
from daemon.doctor.bundle import Redactor
from daemon.sections.containers import KubernetesSection
from daemon.sections.playbooks import HooksSection, ScaleSection
from rules.actions import Action, ActionRefused
from tests.daemon.acting.test_hook_program import hook

T = TypeVar("T")
RUN = RunContext("run-12", "slow_card", "npu 3")
AWAY = Action("traffic_away")


def live(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


class Replicas:
    """A scale in memory."""

    def __init__(self, count: int = 1) -> None:
        self.count = count
        self.broken: str | None = None
        self.opened = 0

    async def replicas(self) -> int:
        if self.broken is not None:
            raise ServerError(self.broken)
        return self.count

    async def set_replicas(self, count: int, expected: int) -> None:
        if self.count != expected:
            raise ServerError(f"somebody has scaled to {self.count} since")
        self.count = count

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Scale]:
        self.opened += 1
        yield self


def test_without_a_second_replica_it_says_that_30_seconds_are_impossible() -> None:
    away = TrafficAway(HooksSection(), Redactor(()))
    with pytest.raises(ActionRefused, match=r"within 30 s is impossible.*playbooks\.hooks\.traffic_away"):
        live(away.plan(AWAY, RUN, 0.0))


def test_traffic_leaves_and_comes_back(tmp_path: Path) -> None:
    (tmp_path / "back").mkdir()
    hooks = HooksSection(
        traffic_away=hook(tmp_path, f'echo "$TRIMTAB_TARGET" > {tmp_path}/left; echo on replica 2'),
        traffic_back=hook(tmp_path / "back", f"rm {tmp_path}/left"),
    )
    away = TrafficAway(hooks, Redactor(()))
    plan = live(away.plan(AWAY, RUN, 0.0))
    assert (plan.blast, plan.reversible) == ("service", True)
    done = live(away.act(AWAY, plan, RUN, 0.0))
    assert done.ok
    assert done.figures["within_30_seconds"] is True
    assert (tmp_path / "left").read_text() == "npu 3\n"
    assert plan.undo is not None
    assert live(away.undo(plan.undo, RUN, 0.0)).ok
    assert not (tmp_path / "left").exists()


def test_without_a_way_back_it_is_not_called_reversible(tmp_path: Path) -> None:
    away = TrafficAway(HooksSection(traffic_away=hook(tmp_path, "true")), Redactor(()))
    plan = live(away.plan(AWAY, RUN, 0.0))
    assert (plan.reversible, plan.undo) == (False, None)
    assert "traffic_back" in plan.text


def test_a_hook_that_fails_is_told_with_its_words_and_without_secrets(tmp_path: Path) -> None:
    hooks = HooksSection(traffic_away=hook(tmp_path, "echo token=abcdef123456 was refused; exit 4"))
    away = TrafficAway(hooks, Redactor(["abcdef123456"]))
    plan = live(away.plan(AWAY, RUN, 0.0))
    done = live(away.act(AWAY, plan, RUN, 0.0))
    assert not done.ok
    assert "code 4" in done.text
    assert "abcdef123456" not in done.text + str(done.figures)
    assert done.figures["within_30_seconds"] is False


def test_a_late_hook_is_ended_in_the_shorter_of_two_times(tmp_path: Path) -> None:
    hooks = HooksSection(traffic_away=hook(tmp_path, "sleep 60"), timeout_seconds=30)
    away = TrafficAway(hooks, Redactor(()))
    plan = live(away.plan(AWAY, RUN, 0.0))
    done = live(away.act(Action("traffic_away", timeout_seconds=0.3), plan, RUN, 0.0))
    assert not done.ok
    assert done.figures["seconds"] < 10


class TestScaleUp:
    def up(self, replicas: Replicas, most: int = 3) -> ScaleUp:
        section = ScaleSection(deployment="qwen", most_replicas=most)
        return ScaleUp(HooksSection(), section, Redactor(()), replicas.open)

    def test_one_more_and_back(self) -> None:
        replicas = Replicas(1)
        up = self.up(replicas)
        plan = live(up.plan(Action("scale_up"), RUN, 0.0))
        assert "from 1 to 2" in plan.text
        assert replicas.count == 1
        assert live(up.act(Action("scale_up"), plan, RUN, 0.0)).ok
        assert replicas.count == 2
        assert plan.undo is not None
        assert live(up.undo(plan.undo, RUN, 0.0)).ok
        assert replicas.count == 1
        assert live(up.undo(plan.undo, RUN, 0.0)).ok
        assert replicas.count == 1

    def test_never_more_than_configured(self) -> None:
        up = self.up(Replicas(1), most=2)
        plan = live(up.plan(Action("scale_up", {"replicas": 5}), RUN, 0.0))
        assert plan.undo == {"replicas": 1, "set": 2}
        with pytest.raises(ActionRefused, match="most_replicas"):
            live(self.up(Replicas(2), most=2).plan(Action("scale_up"), RUN, 0.0))

    def test_what_somebody_else_scaled_since_is_left(self) -> None:
        replicas = Replicas(1)
        up = self.up(replicas)
        plan = live(up.plan(Action("scale_up"), RUN, 0.0))
        live(up.act(Action("scale_up"), plan, RUN, 0.0))
        replicas.count = 3
        assert plan.undo is not None
        back = live(up.undo(plan.undo, RUN, 0.0))
        assert not back.ok
        assert replicas.count == 3

    def test_a_cluster_that_cannot_be_asked_refuses_the_plan(self) -> None:
        replicas = Replicas()
        replicas.broken = "the cluster did not answer"
        with pytest.raises(ActionRefused, match="did not answer"):
            live(self.up(replicas).plan(Action("scale_up"), RUN, 0.0))

    def test_a_hook_goes_before_the_scale(self, tmp_path: Path) -> None:
        replicas = Replicas(1)
        hooks = HooksSection(scale_up=hook(tmp_path, "true"))
        up = ScaleUp(hooks, ScaleSection(deployment="qwen"), Redactor(()), replicas.open)
        plan = live(up.plan(Action("scale_up"), RUN, 0.0))
        assert live(up.act(Action("scale_up"), plan, RUN, 0.0)).ok
        assert (replicas.opened, plan.reversible) == (0, False)

    def test_with_neither_it_says_what_to_configure(self) -> None:
        up = ScaleUp(HooksSection(), ScaleSection(), Redactor(()))
        with pytest.raises(ActionRefused, match=r"playbooks\.hooks\.scale_up.*playbooks\.scale\.deployment"):
            live(up.plan(Action("scale_up"), RUN, 0.0))

    def test_no_deployment_no_cluster(self) -> None:
        assert kubernetes_scale(ScaleSection(), KubernetesSection()) is None
