"""A campaign over all lanes that is stopped, left or not answered: how long that may take, and what serves after it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from change.engine import EngineError
from daemon import outer_tuning
from sim.cold_story import HONOURED
from sim.virtual_time import live
from store.models import Campaign
from tests.daemon.outer_stand import Stand
from tuner.outer.campaign import ANSWER_SECONDS
from tuner.outer.messages import Agree, TuneHot


def test_a_stop_takes_the_time_that_the_way_back_takes(tmp_path: Path) -> None:
    stand = Stand(tmp_path)
    stand.until(stand.trial_is_measured)
    began = stand.node.now
    live(stand.node, stand.tuning.stop(began, "aborted", "a person stopped it"))
    report = stand.tuning.report
    assert report is not None and stand.node.cold == HONOURED.launch
    outer = next(c for c in stand.rows(Campaign) if c.lane == "cold")
    assert outer.ended is not None and began + 60.0 < outer.ended == pytest.approx(stand.node.now, abs=2.0)


def test_a_stop_that_comes_to_no_end_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outer_tuning, "STOP_SECONDS", 30)
    stand = Stand(tmp_path)
    stand.until(stand.trial_is_measured)

    async def never(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(stand.cold.lane, "restart", never)
    began = stand.node.now
    live(stand.node, stand.tuning.stop(began, "aborted", "a person stopped it"))
    report = stand.tuning.report
    assert report is not None and "no end within 30 s" in report["reasons"][-1]
    assert 25.0 <= stand.node.now - began <= 40.0


def test_an_engine_out_of_reach_is_waited_for_a_second_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand = Stand(tmp_path)
    stand.until(stand.trial_is_measured)
    looks: list[float] = []
    served = stand.cold.lane.restart

    async def then_gone(*args: object, **named: object) -> object:
        result = await served(*args, **named)  # type: ignore[arg-type]

        async def gone() -> None:
            looks.append(stand.node.now)
            raise EngineError("connection refused")

        monkeypatch.setattr(stand.node.control, "state", gone)
        return result

    monkeypatch.setattr(stand.cold.lane, "restart", then_gone)
    live(stand.node, stand.tuning.stop(stand.node.now, "aborted", "a person stopped it"))
    assert stand.tuning.report is not None
    assert len(looks) >= outer_tuning.STATE_TRIES
    assert looks[outer_tuning.STATE_TRIES - 1] - looks[0] >= outer_tuning.STATE_TRIES - 2


def test_leaving_over_a_candidate_makes_no_restart_and_the_next_process_brings_the_incumbent_back(
    tmp_path: Path,
) -> None:
    stand = Stand(tmp_path)
    stand.until(stand.trial_is_measured)
    starts, began = stand.cold.server.starts, stand.node.now
    live(stand.node, stand.tuning.leave(began, "aborted", "the daemon was stopped"))
    assert stand.cold.server.starts == starts and stand.node.now - began < 1.0
    assert stand.node.cold != HONOURED.launch and len(stand.journal.open_entries("cold")) == 1
    report = stand.tuning.report
    assert report is not None and report["decision"] == "aborted"
    assert "until the daemon starts again" in report["reasons"][-1]
    assert all(campaign.ended for campaign in stand.rows(Campaign))
    stand.lock.release()
    live(stand.node, stand.cold.afresh().tick(stand.node.now))
    assert stand.incumbents()


def test_leaving_in_a_hot_campaign_of_a_candidate_keeps_nothing_of_it(tmp_path: Path) -> None:
    stand = Stand(tmp_path)
    stand.until(lambda: in_a_candidates_hot_campaign(stand))
    live(stand.node, stand.tuning.leave(stand.node.now, "aborted", "the daemon was stopped"))
    assert all(campaign.ended for campaign in stand.rows(Campaign))
    stand.lock.release()
    live(stand.node, stand.cold.afresh().tick(stand.node.now))
    assert stand.incumbents()


def test_leaving_with_the_incumbent_in_force_ends_as_a_stop_does(tmp_path: Path) -> None:
    stand = Stand(tmp_path)
    stand.until(lambda: stand.tuning.mind is not None and stand.tuning._inner is not None)
    live(stand.node, stand.tuning.leave(stand.node.now, "aborted", "the daemon was stopped"))
    report = stand.tuning.report
    assert report is not None and report["reasons"] == ["the daemon was stopped"]
    assert stand.node.cold == HONOURED.launch and stand.restarts() == []


def test_a_window_that_closes_in_a_candidates_hot_campaign_ends_it_at_once(tmp_path: Path) -> None:
    closed = False
    stand = Stand(tmp_path, may_restart=lambda _: not closed)
    stand.until(lambda: in_a_candidates_hot_campaign(stand))
    closed, began = True, stand.node.now
    back: list[float] = []

    def going_back() -> bool:
        back.extend([stand.node.now] if stand.tuning._restarting is not None else [])
        return False

    stand.until(going_back)
    assert back[0] - began <= 5.0
    report = stand.tuning.report
    assert report is not None and "window closed" in report["reasons"][-1]
    assert stand.incumbents()


def test_what_nobody_agrees_to_serves_an_hour_at_most(tmp_path: Path) -> None:
    stand = Stand(tmp_path, mode="advise")
    asked: list[float] = []

    async def run() -> None:
        while not stand.tuning.done:
            await asyncio.sleep(1.0)
            await stand.tuning.tick(stand.node.now)
            if isinstance(stand.tuning._command, Agree):
                assert stand.tuning.pending is not None
                asked.append(stand.node.now)
            elif stand.tuning.pending is not None:
                stand.tuning.approve()

    live(stand.node, run())
    assert 0.9 * ANSWER_SECONDS < asked[-1] - asked[0] <= ANSWER_SECONDS
    assert stand.tuning.pending is None and stand.incumbents()


def in_a_candidates_hot_campaign(stand: Stand) -> bool:
    command = stand.tuning._command
    inner = stand.tuning._inner
    started = inner is not None and inner.campaign is not None and len(inner.campaign.candidates) > 0
    return isinstance(command, TuneHot) and command.trial is not None and started
