"""Campaigns in the daemon: begun, asked for, paused, switched off, ended."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from daemon import tuning
from daemon.promotion import Promoter
from daemon.tuning import Tuning
from tests.daemon.engine_stand import LAUNCH, EngineStand
from tests.daemon.living import config_for, notices, running

pytestmark = pytest.mark.usefixtures("quick")


def test_a_campaign_of_a_driver_that_fails_is_ended_and_the_daemon_goes_on(
    tmp_path: Path, engine: EngineStand, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(Tuning):
        async def tick(self, now: float) -> None:
            raise ZeroDivisionError

    monkeypatch.setattr(tuning, "Tuning", Broken)

    async def story() -> None:
        async with running(config_for(tmp_path, engine)) as one:
            await one.until(lambda live: live["engine"].get("plugin") is not None)
            assert (await one.http.post("/api/v1/tune", json={"mode": "act"})).status_code == 200
            live = await one.until(
                lambda live: live["campaign"] is None and notices(live, "campaign loop failed")
            )
            assert live["last_campaign"]["decision"] == "aborted"
            # The lock is free again.
            assert (
                await one.http.post("/api/v1/apply", json={"values": {"max_num_seqs": 128}})
            ).status_code == 200

    asyncio.run(story())


def test_pausing_ends_a_campaign_and_resuming_lets_another_begin(tmp_path: Path, engine: EngineStand) -> None:
    async def story() -> None:
        async with running(config_for(tmp_path, engine)) as one:
            await one.until(lambda live: live["engine"].get("plugin") is not None)
            assert (
                await one.http.post("/api/v1/tune", json={"mode": "act", "minutes": 5})
            ).status_code == 200
            await one.until(lambda live: (live["campaign"] or {}).get("id") is not None)
            again = await one.http.post("/api/v1/tune", json={"mode": "act"})
            assert again.status_code == 409
            by_hand = await one.http.post("/api/v1/apply", json={"values": {"max_num_seqs": 128}})
            assert by_hand.status_code == 409
            assert "a campaign" in by_hand.json()["detail"]
            assert (await one.http.post("/api/v1/pause", json={})).json()["paused"] is True
            live = await one.live()
            assert live["campaign"] is None
            assert live["paused"] is True
            assert engine.values == LAUNCH
            refused = await one.http.post("/api/v1/tune", json={"mode": "act"})
            assert refused.status_code == 409
            assert "paused" in refused.json()["detail"]
            assert (await one.http.post("/api/v1/resume", json={})).json() == {"paused": False, "note": None}
            assert (await one.http.post("/api/v1/tune", json={"mode": "act"})).status_code == 200

    asyncio.run(story())
    assert engine.values == LAUNCH


def test_the_kill_switch_file_ends_a_campaign(tmp_path: Path, engine: EngineStand) -> None:
    config = config_for(tmp_path, engine)

    async def story() -> None:
        async with running(config) as one:
            await one.until(lambda live: live["engine"].get("plugin") is not None)
            assert (await one.http.post("/api/v1/tune", json={"mode": "act"})).status_code == 200
            await one.until(lambda live: (live["campaign"] or {}).get("id") is not None)
            config.kill_switch_file.touch()
            live = await one.until(lambda live: live["campaign"] is None)
            assert notices(live, "kill-switch")

    asyncio.run(story())


def test_a_promotion_whose_way_back_failed_as_the_campaign_was_stopped_is_taken_back_after_it(
    tmp_path: Path, engine: EngineStand, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Promoting(Tuning):
        """In probation with its first look; its own way back gets no answer."""

        async def tick(self, now: float) -> None:
            began = self.campaign is None
            await super().tick(now)
            if began and self.campaign is not None:
                promoter = self._promoter()
                assert await promoter.keep({"batch_max_tokens": 512.0}, now) is None
                self.campaign.promoted(now, (await self._control.state()).epoch)
                monkeypatch.setattr(Promoter, "take_back", no_answer)

    async def no_answer(self: Promoter, now: float) -> str:
        return "no answer"

    monkeypatch.setattr(tuning, "Tuning", Promoting)

    async def story() -> None:
        async with running(config_for(tmp_path, engine)) as one:
            await one.until(lambda live: live["engine"].get("plugin") is not None)
            assert (await one.http.post("/api/v1/tune", json={"mode": "act"})).status_code == 200
            await one.until(lambda live: engine.values["batch_max_tokens"] == 512.0)
            assert (await one.http.post("/api/v1/pause", json={})).json()["paused"] is True
            live = await one.until(lambda live: notices(live, "probation broke off was taken back"))
            assert live["last_campaign"]["decision"] == "aborted"

    asyncio.run(story())
    assert engine.values == LAUNCH


def test_advise_mode_waits_for_a_yes_and_a_no_ends_it(tmp_path: Path, engine: EngineStand) -> None:
    async def story() -> None:
        async with running(config_for(tmp_path, engine, mode="advise")) as one:
            await one.until(lambda live: live["engine"].get("plugin") is not None)
            assert (await one.http.post("/api/v1/tune", json={"mode": "advise"})).status_code == 200
            live = await one.until(lambda live: live["pending"] is not None)
            assert live["campaign"]["id"] is None
            pending = live["pending"]["id"]
            missing = await one.http.post("/api/v1/approvals/999", json={"answer": "approve"})
            assert missing.status_code == 404
            answer = await one.http.post(f"/api/v1/approvals/{pending}", json={"answer": "decline"})
            assert answer.status_code == 200
            live = await one.until(lambda live: live["campaign"] is None)
            assert engine.changes == []
            await one.http.post("/api/v1/tune", json={"mode": "advise"})
            live = await one.until(lambda live: live["pending"] is not None)
            await one.http.post(f"/api/v1/approvals/{live['pending']['id']}", json={"answer": "approve"})
            await one.until(lambda live: (live["campaign"] or {}).get("id") is not None)

    asyncio.run(story())


def test_detaching_puts_the_launch_values_back(tmp_path: Path, engine: EngineStand) -> None:
    async def story() -> None:
        async with running(config_for(tmp_path, engine)) as one:
            await one.until(lambda live: live["engine"].get("launch") == LAUNCH)
            await one.http.post("/api/v1/apply", json={"values": {"max_num_seqs": 128}})
            assert engine.values["max_num_seqs"] == 128.0
            answer = await one.http.post("/api/v1/detach", json={})
            assert answer.json()["outcome"] == "done"
            assert engine.values == LAUNCH
            assert (await one.live())["paused"] is True

    asyncio.run(story())


def test_a_schedule_begins_a_campaign_by_itself(tmp_path: Path, engine: EngineStand) -> None:
    now = time.localtime()
    soon = [f"{now.tm_hour:02d}:{now.tm_min:02d}"]
    later = time.localtime(time.time() + 60)
    soon.append(f"{later.tm_hour:02d}:{later.tm_min:02d}")

    async def story() -> None:
        async with running(config_for(tmp_path, engine, tune={"schedule": soon})) as one:
            await one.until(lambda live: (live["campaign"] or {}).get("id") is not None)

    asyncio.run(story())


def test_restarts_are_refused_where_nothing_may_restart_the_engine(
    tmp_path: Path, engine: EngineStand
) -> None:
    async def story() -> None:
        async with running(config_for(tmp_path, engine)) as one:
            await one.until(lambda live: live["engine"].get("plugin") is not None)
            for restarts, why in ((4, "nothing here may restart the engine"), (2, "at least 3")):
                answer = await one.http.post("/api/v1/tune", json={"mode": "act", "restarts": restarts})
                assert answer.status_code == 409 and why in answer.json()["detail"]
            assert (await one.live())["campaign"] is None

    asyncio.run(story())
