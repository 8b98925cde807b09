"""The host lane beside the daemon's loops, on a laid host: recovery at start, and after a restart of the engine."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from change.host import HostChange
from change.host_steps import begin_trial, change_host
from change.journal import Journal
from change.lock import EngineLock, LockHeld
from collectors.history import History
from collectors.sample import Sample, labels
from daemon.host_lane import HostLane, near_nodes
from daemon.host_watch import HostWatch
from daemon.modes import Modes
from daemon.notices import Notices
from store import open_store
from store.models import Campaign
from tests.change.plain_engine import PlainEngine
from tests.daemon.host.laid import MAIN, LaidHost

SPLIT = HostChange("placement", "split:4")


@pytest.fixture
def laid(tmp_path: Path) -> LaidHost:
    return LaidHost(tmp_path / "root")


@pytest.fixture
def journal() -> Iterator[Journal]:
    store = open_store("sqlite:///:memory:")
    yield Journal(store, "http://127.0.0.1:8000")
    store.close()


def lane_of(laid: LaidHost, journal: Journal, tmp_path: Path) -> HostLane:
    return HostLane(
        laid.hand(), PlainEngine(), journal, tmp_path / "locks", lambda: MAIN, root=laid.tree.root
    )


def watch_of(lane: HostLane, tmp_path: Path, mode: str = "act") -> HostWatch:
    modes = Modes(mode, tmp_path / "paused", tmp_path / "stop", ())  # type: ignore[arg-type]
    return HostWatch(lane, modes, Notices(lambda: 0.0), busy=lambda: False)


def test_what_a_dead_daemon_left_open_is_put_back_at_the_first_tick(
    laid: LaidHost, journal: Journal, tmp_path: Path
) -> None:
    before, lane = laid.affinities(), lane_of(laid, journal, tmp_path)

    async def scene() -> None:
        await begin_trial(laid.hand(), journal, [SPLIT], boot_id="b00t-1", actor="tune", now=1.0)
        await laid.hand().apply(SPLIT)
        assert laid.affinities() != before
        await watch_of(lane, tmp_path, "observe").tick(2.0)

    asyncio.run(scene())
    assert laid.affinities() == before
    assert journal.open_entries("host") == []


def test_orders_wait_for_who_changes_the_engine(laid: LaidHost, journal: Journal, tmp_path: Path) -> None:
    lane = lane_of(laid, journal, tmp_path)

    async def scene() -> None:
        boot_id = (await PlainEngine().state()).boot_id
        with (
            EngineLock(tmp_path / "locks", boot_id, "a campaign"),
            pytest.raises(LockHeld, match="a campaign"),
        ):
            await lane.apply([SPLIT], "cli", 1.0)
        assert (await lane.apply([SPLIT], "cli", 2.0))["outcome"] == "done"
        assert (await lane.detach("cli", 3.0) or {})["outcome"] == "done"
        assert await lane.detach("cli", 4.0) is None

    asyncio.run(scene())


def test_two_orders_meet_though_the_plugin_answers_only_one_of_them(
    laid: LaidHost, journal: Journal, tmp_path: Path
) -> None:
    engine = PlainEngine()
    lane = HostLane(laid.hand(), engine, journal, tmp_path / "locks", lambda: MAIN, root=laid.tree.root)

    async def scene() -> None:
        for before, after in ((False, True), (True, False)):
            engine.down = before
            first = await lane.locks("the first")
            engine.down = after
            with first.holding(node_wide=False), pytest.raises(LockHeld, match="the first"):
                await lane.apply([SPLIT], "cli", 1.0)

    asyncio.run(scene())


def test_near_are_the_nodes_of_the_engines_own_cards() -> None:
    history = History()
    for npu, node in (("0", 6.0), ("1", 6.0), ("2", 4.0)):
        history.add([Sample("npu_numa_node", node, 1.0, labels(npu=npu, chip="0"))])
    assert near_nodes(history, lambda npu: npu != "2") == {6}
    assert near_nodes(history, lambda npu: None) == {4, 6}
    assert near_nodes(History(), lambda npu: True) == frozenset()


@pytest.mark.parametrize("decision", ["promoted", "aborted", None])
def test_a_promotion_that_nobody_saw_through_its_probation_goes_back(
    laid: LaidHost, journal: Journal, tmp_path: Path, decision: str | None
) -> None:
    before, lane = laid.affinities(), lane_of(laid, journal, tmp_path)
    with journal._store.session() as session:
        session.add(
            Campaign(
                id=7,
                engine=journal.engine,
                boot_id="boot-1",
                started=1.0,
                phase="probation",
                decision=decision,
                objective={},
                settings={},
                incumbent={},
                fingerprint={},
                calibration={},
            )
        )

    async def scene() -> None:
        await change_host(
            laid.hand(),
            journal,
            [SPLIT],
            boot_id="b00t-1",
            kind="promotion",
            actor="campaign 7",
            now=1.0,
            campaign_id=7,
        )
        await watch_of(lane, tmp_path, "observe").tick(2.0)

    asyncio.run(scene())
    assert (laid.affinities() == before) == (decision != "promoted")
