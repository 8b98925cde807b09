"""A daemon that dies in a campaign over all lanes: the next one brings the incumbent back, whoever looks first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from collectors.history import History
from daemon.campaigns import Campaigns
from daemon.config import TuneSection
from daemon.engine_probe import Probe
from daemon.engine_watch import EngineWatch
from daemon.modes import Modes
from sim.virtual_time import live
from store.models import Campaign, Trial
from tests.daemon.outer_stand import Stand
from tuner.settings import Slo
from web.body import Refused


class Answering:
    """The engine's own HTTP API, which answers."""

    async def look(self) -> Probe:
        """Say so."""
        return Probe(True)


class NextProcess:
    """What a daemon ticks beside the engine that a dead one left."""

    def __init__(self, stand: Stand, folder: Path) -> None:
        modes = Modes("act", folder / "paused", folder / "stop", ())
        self.cold = stand.cold.afresh()
        self.campaigns = Campaigns(
            control=stand.node.control,
            store=stand.store,
            journal=stand.journal,
            history=History(),
            tune=TuneSection(),
            slo=Slo(),
            engine_url="simulated",
            modes=modes,
            notices=stand.cold.notices,
            lock_dir=folder,
            ended=lambda: None,
            cold_lane=self.cold,
        )
        self.watch = EngineWatch(
            stand.node.control,
            Answering(),
            stand.journal,
            modes,
            stand.cold.notices,
            folder,
            busy=lambda: self.campaigns.running or self.cold.running,
            unproven=self.campaigns.unproven,
        )
        self._stand = stand

    def settle(self, first: str) -> None:
        """Tick until all is settled; `first` looks once before the other does."""

        async def ticks() -> None:
            if first == "watch":
                await self.watch.tick(self._stand.node.now)
            for _ in range(5):
                await self.cold.tick(self._stand.node.now)
                await self.watch.tick(self._stand.node.now)
                await self.campaigns.tick(self._stand.node.now)
                await asyncio.sleep(1.0)

        live(self._stand.node, ticks())


def in_the_hot_campaign_of_a_trial(stand: Stand) -> bool:
    """Whether a hot campaign inside a candidate has a trial of its own in force."""
    mind = stand.tuning.mind
    if mind is None or not mind.serving or stand.node.control.down:
        return False
    return stand.node.control.read_state().lease_remaining_seconds is not None


POINTS: dict[str, Callable[[Stand], bool]] = {
    "trial": Stand.trial_is_measured,
    "hot trial inside": in_the_hot_campaign_of_a_trial,
    "probation": Stand.promotion_is_measured,
}


@pytest.mark.parametrize(
    ("point", "first"),
    [("trial", "cold"), ("hot trial inside", "watch"), ("probation", "cold"), ("probation", "watch")],
)
def test_all_of_the_incumbent_serves_again(tmp_path: Path, point: str, first: str) -> None:
    stand = Stand(tmp_path)
    stand.until(lambda: POINTS[point](stand))
    assert stand.tuning.report is None and not stand.incumbents()
    before = stand.cold.server.starts
    stand.lock.release()
    NextProcess(stand, tmp_path).settle(first)
    assert stand.incumbents()
    assert stand.cold.server.starts == before + 1 and not stand.cold.server.two_at_once
    assert stand.node.failed_requests == 0
    assert all(campaign.ended is not None for campaign in stand.rows(Campaign))
    assert all(trial.ended is not None for trial in stand.rows(Trial))
    # And nothing is done twice.
    NextProcess(stand, tmp_path).settle(first)
    assert stand.incumbents() and stand.cold.server.starts == before + 1


def test_what_a_person_restarted_since_stands(tmp_path: Path) -> None:
    stand = Stand(tmp_path)
    stand.until(stand.promotion_is_measured)
    stand.lock.release()
    live(stand.node, stand.cold.lane.restart({"block_size": 32}, actor="operator", kind="manual"))
    NextProcess(stand, tmp_path).settle("cold")
    assert stand.node.cold["block_size"] == 32 and stand.restarts()[-1] == ("manual", "done")


def test_a_way_back_that_does_not_come_up_is_told_and_not_tried_again_and_again(tmp_path: Path) -> None:
    stand = Stand(tmp_path)
    stand.until(stand.promotion_is_measured)
    stand.lock.release()
    starts = stand.cold.server.starts
    stand.cold.server.faults += ["init_failure", None]
    NextProcess(stand, tmp_path).settle("cold")
    assert stand.restarts()[-1] == ("rollback", "undone")
    assert stand.cold.server.starts == starts + 2 and stand.cold.server.serving
    assert any(
        "takes back a promotion" in notice.text and "init" in notice.text
        for notice in stand.cold.notices.standing()
    )


def test_no_campaign_begins_over_a_restart_that_is_not_ended(tmp_path: Path) -> None:
    stand = Stand(tmp_path)
    stand.lock.release()
    live(stand.node, stand.cold.lane.restart({"block_size": 64}, actor="campaign 1", kind="trial"))
    campaigns = NextProcess(stand, tmp_path).campaigns
    with pytest.raises(Refused, match="not brought to an end"):
        live(stand.node, campaigns.start("act", None, stand.node.now, 4))
