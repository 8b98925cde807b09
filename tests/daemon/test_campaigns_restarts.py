"""Campaigns with restarts in the daemon, and the host lane beside them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from change.host import HostError
from change.journal import Journal
from change.lock import EngineLock
from collectors.history import History
from daemon.campaigns import Campaigns
from daemon.config import Config
from daemon.headless import START
from daemon.host_lane import HostLane
from daemon.host_watch import after_restart
from daemon.modes import Modes
from daemon.notices import Notices
from daemon.simulated_cold import simulated_cold
from sim.node import Node
from sim.scenario import SCENARIOS
from store import open_store
from tests.daemon.outer_stand import Stand
from tuner.settings import Slo
from web.body import Refused


def campaigns(folder: Path, knobs: list[str], **parts: Any) -> tuple[Campaigns, Notices]:
    """The daemon's campaigns over an engine that it may restart."""
    node = Node(SCENARIOS["guide-235b-plain"], 7, START)
    config = Config.model_validate({"mode": "act", "tune": {"knobs": knobs, "restarts": 4}})
    store = open_store("sqlite:///:memory:")
    journal = Journal(store, "simulated")
    notices = Notices(lambda: node.now)
    made = Campaigns(
        control=node.control,
        store=store,
        journal=journal,
        history=History(),
        tune=config.tune,
        slo=Slo(),
        engine_url="simulated",
        modes=Modes("act", folder / "paused", folder / "stop", ()),
        notices=notices,
        lock_dir=folder,
        ended=lambda: None,
        cold_lane=simulated_cold(node, journal).lane,
        **parts,
    )
    return made, notices


def test_knobs_of_the_host_together_with_restarts_are_refused_at_the_start(tmp_path: Path) -> None:
    one, _ = campaigns(tmp_path, ["placement", "max_num_seqs"])
    with pytest.raises(Refused, match=r"placement .* tune\.restarts is 4: .* set tune\.restarts to 0"):
        asyncio.run(one.start("act", None, START))
    assert not one.running
    asyncio.run(one.start("act", None, START, restarts=0))
    assert one.running


def test_a_host_that_does_not_take_its_promotion_again_is_said_and_ends_nothing() -> None:
    asked: list[float] = []

    class Gone(HostLane):
        def __init__(self) -> None:
            pass

        async def reapply(self, now: float) -> None:
            asked.append(now)
            raise HostError("cpuset is gone")

    notices = Notices(lambda: START)

    async def story() -> None:
        await after_restart(Gone(), notices)(START)

    asyncio.run(story())
    assert asked == [START] and notices.holds("host lane")


def test_the_hosts_promotion_comes_back_after_each_restart_before_anything_is_held_there(
    tmp_path: Path,
) -> None:
    stand = Stand(tmp_path)
    seen: list[tuple[str, int]] = []

    async def came_up(now: float) -> None:
        state = stand.node.control.read_state()
        # Whoever sets the host needs the engine's lock for it.
        with EngineLock(tmp_path, state.boot_id, "re-apply"):
            seen.append((state.boot_id, len(stand.boots)))

    stand.tuning._came_up = came_up
    stand.until(lambda: len(stand.boots) >= 2 and stand.trial_is_measured())
    assert seen == [(boot, before) for before, boot in enumerate(stand.boots)]
