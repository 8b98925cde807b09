"""Host changes of a playbook on a laid host: set, and put back by their exact undo."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from change.host import HostChange
from change.host_steps import change_host
from change.journal import Journal
from daemon.acting.deed import RunContext
from daemon.acting.host import HostValues
from daemon.host_lane import HostLane
from rules.actions import Action, ActionRefused
from store import open_store
from tests.change.plain_engine import PlainEngine
from tests.daemon.host.laid import MAIN, LaidHost

RUN = RunContext("run-7", "cpu_placement", "host")
SPLIT = Action("set_host", {"placement": "split:4"})


class Here:
    def __init__(self, folder: Path, journal: Journal) -> None:
        self.laid = LaidHost(folder / "root")
        self.journal = journal
        self.lane = HostLane(
            self.laid.hand(), PlainEngine(), journal, folder / "locks", lambda: MAIN, root=self.laid.tree.root
        )
        self.deed = HostValues(self.lane, journal)


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Here]:
    store = open_store("sqlite:///:memory:")
    yield Here(tmp_path, Journal(store, "http://127.0.0.1:8000"))
    store.close()


def test_threads_are_placed_and_put_back_one_by_one(here: Here) -> None:
    before = here.laid.affinities()

    async def scene() -> None:
        plan = await here.deed.plan(SPLIT, RUN, 1.0)
        assert (plan.blast, plan.reversible) == ("engine", True)
        assert "placement" in plan.text
        assert here.laid.affinities() == before
        done = await here.deed.act(SPLIT, plan, RUN, 2.0)
        assert done.ok, done.text
        assert here.laid.affinities() != before
        assert here.journal.last(1)[0].actor == RUN.actor
        assert plan.undo is not None
        for _ in range(2):
            assert (await here.deed.undo(plan.undo, RUN, 3.0)).ok
            assert here.laid.affinities() == before

    asyncio.run(scene())


def test_what_stands_over_it_is_not_taken_back_with_it(here: Here) -> None:
    async def scene() -> None:
        plan = await here.deed.plan(SPLIT, RUN, 1.0)
        await here.deed.act(SPLIT, plan, RUN, 2.0)
        await change_host(
            here.laid.hand(),
            here.journal,
            [HostChange("placement", "split:2")],
            boot_id=here.lane.boot_id(),
            kind="manual",
            actor="operator",
            now=3.0,
        )
        now = here.laid.affinities()
        assert plan.undo is not None
        back = await here.deed.undo(plan.undo, RUN, 4.0)
        assert not back.ok
        assert "operator" in back.text
        assert here.laid.affinities() == now

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [({}, "names no knob"), ({"fan_speed": "7"}, "fan_speed"), ({"placement": "sideways"}, "sideways")],
)
def test_what_this_host_cannot_is_refused(here: Here, arguments: dict[str, str], said: str) -> None:
    async def scene() -> None:
        plan = await here.deed.plan(Action("set_host", arguments), RUN, 1.0)
        await here.deed.act(Action("set_host", arguments), plan, RUN, 1.0)

    with pytest.raises(ActionRefused, match=said):
        asyncio.run(scene())


def test_what_is_in_force_already_is_no_act(here: Here) -> None:
    async def scene() -> None:
        plan = await here.deed.plan(SPLIT, RUN, 1.0)
        await here.deed.act(SPLIT, plan, RUN, 2.0)
        with pytest.raises(ActionRefused, match="in force already"):
            await here.deed.plan(SPLIT, RUN, 3.0)

    asyncio.run(scene())
