"""The daemon goes on whatever breaks around it, says so once, and recovers by itself."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import stat
import time
from collections.abc import AsyncIterator, Callable, Iterator, MutableMapping
from pathlib import Path
from typing import Any

import httpx2
import pytest
import structlog

from change.journal import Journal, Promotion
from change.lock import EngineLock
from daemon import assembly, credentials, engine_watch, loops, patient_store, supervisor, tuning
from daemon.config import Config
from daemon.engine_probe import EngineProbe
from daemon.loops import Daemon
from daemon.tuning import Tuning
from daemon.web_server import listen, local_url
from store import open_store
from tests.daemon.engine_stand import LAUNCH, TOKEN, EngineStand

WAIT_SECONDS = 60.0
Said = list[MutableMapping[str, Any]]


@pytest.fixture
def engine() -> Iterator[EngineStand]:
    with EngineStand() as stand:
        yield stand


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same loops, only faster."""
    monkeypatch.setattr(loops, "WATCH_SECONDS", 0.05)
    monkeypatch.setattr(loops, "CAMPAIGN_SECONDS", 0.05)
    monkeypatch.setattr(loops, "HOUSEKEEPING_SECONDS", 0.1)
    monkeypatch.setattr(engine_watch, "PROBE_EVERY_SECONDS", 0.2)
    monkeypatch.setattr(supervisor, "FIRST_PAUSE_SECONDS", 0.05)
    monkeypatch.setattr(patient_store, "AGAIN_SECONDS", 0.1)


@pytest.fixture
def said() -> Iterator[Said]:
    """Every line of the log."""
    with structlog.testing.capture_logs() as lines:
        yield lines


def config_for(tmp_path: Path, engine: EngineStand, **more: Any) -> Config:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    values: dict[str, Any] = {
        "mode": "act",
        "engine": {
            "url": engine.url,
            "token_file": str(token),
            "run_dir": str(tmp_path / "run"),
            "timeout_seconds": 1.0,
        },
        "collect": {
            "vllm": {"interval_seconds": 0.1},
            "npu_smi": {"enabled": False},
            "host": {"enabled": False},
        },
        "web": {"port": 0},
        "store": {"url": f"sqlite:///{tmp_path}/store/trimtab.db"},
    }
    for key, value in more.items():
        values[key] = {**values.get(key, {}), **value} if isinstance(value, dict) else value
    return Config.model_validate(values)


class Running:
    """A daemon and its page."""

    def __init__(self, daemon: Daemon, url: str) -> None:
        self.daemon = daemon
        self.http = httpx2.AsyncClient(base_url=url, trust_env=False, timeout=5)

    async def live(self) -> dict[str, Any]:
        answer = await self.http.get("/api/v1/live")
        assert answer.status_code == 200
        return dict(answer.json())

    async def until(self, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            live = await self.live()
            if condition(live):
                return live
            assert time.monotonic() < deadline, f"it did not come to that: {live}"
            await asyncio.sleep(0.03)


@contextlib.asynccontextmanager
async def running(config: Config) -> AsyncIterator[Running]:
    with contextlib.closing(listen(config.web)) as listening:
        async with assembly.hot_engine(config) as control:
            probe = EngineProbe(config, credentials.engine_api_key(config))
            daemon = Daemon(config, control, probe)
            life = asyncio.create_task(daemon.run(listening))
            one = Running(daemon, local_url(listening, ""))
            try:
                yield one
            finally:
                await one.http.aclose()
                daemon.stop.set()
                await asyncio.wait_for(life, WAIT_SECONDS)
                await probe.close()


def source(live: dict[str, Any], name: str) -> dict[str, Any]:
    return next((one for one in live["sources"] if one["name"] == name), {})


def notices(live: dict[str, Any], text: str) -> bool:
    return any(text in notice["text"] for notice in live["notices"])


def times_said(said: Said, text: str) -> int:
    return sum(text in str(line) for line in said)


def test_an_engine_that_is_gone_is_said_once_and_found_again(
    tmp_path: Path, engine: EngineStand, said: Said
) -> None:
    async def story() -> None:
        async with running(config_for(tmp_path, engine)) as one:
            live = await one.until(lambda live: live["engine"]["reachable"] and live["queue"]["running"] == 3)
            assert live["engine"]["model"] == "stand-model"
            assert live["engine"]["values"] == LAUNCH
            engine.stop()
            live = await one.until(
                lambda live: live["engine"]["reachable"] is False and live["queue"]["running"] is None
            )
            assert notices(live, "nobody answers")
            await asyncio.sleep(0.5)
            engine.start()
            live = await one.until(lambda live: live["engine"]["reachable"] and live["queue"]["running"] == 3)
            assert not notices(live, "nobody answers")

    asyncio.run(story())
    assert times_said(said, "nobody answers") == 1
    assert times_said(said, "the engine answers again") == 1


@pytest.mark.parametrize("fault", ["cut", "garbage", "hang"])
def test_a_broken_metrics_page_is_absent_not_zero(
    tmp_path: Path, engine: EngineStand, said: Said, fault: str
) -> None:
    async def story() -> None:
        async with running(config_for(tmp_path, engine)) as one:
            await one.until(lambda live: live["queue"]["running"] == 3)
            engine.metrics_fault = fault
            live = await one.until(lambda live: source(live, "vllm").get("success") is False)
            assert live["queue"]["running"] is None
            assert live["engine"]["reachable"] is True
            page = (await one.http.get("/metrics")).text
            assert "trimtab_engine_requests_running{" not in page
            assert 'trimtab_collector_success{collector="vllm"} 0.0' in page
            engine.metrics_fault = None
            await one.until(lambda live: live["queue"]["running"] == 3)

    asyncio.run(story())
    assert times_said(said, "source failed") == 1
    assert times_said(said, "source recovered") == 1


def promote(config: Config, engine: EngineStand, values: dict[str, float]) -> None:
    store = open_store(config.store_url)
    launch = dict(engine.launch)
    Journal(store, engine.url).set_promoted(Promotion(launch, launch, values), time.time())
    store.close()


def test_after_a_restart_with_the_same_flags_what_was_promoted_serves_again(
    tmp_path: Path, engine: EngineStand
) -> None:
    config = config_for(tmp_path, engine)
    promote(config, engine, {"batch_max_tokens": 512.0})

    async def story() -> None:
        async with running(config) as one:
            await one.until(
                lambda live: (live["engine"].get("values") or {}).get("batch_max_tokens") == 512.0
            )
            engine.boot()
            live = await one.until(
                lambda live: (
                    str(live["engine"].get("boot_id")).endswith("-2")
                    and live["engine"]["values"]["batch_max_tokens"] == 512.0
                )
            )
            assert live["engine"]["lease_remaining_seconds"] is None
            assert live["engine"]["launch"] == LAUNCH
            assert notices(live, "the engine restarted")

    asyncio.run(story())


def test_after_a_restart_with_other_flags_nothing_is_re_applied_and_it_is_said_once(
    tmp_path: Path, engine: EngineStand, said: Said
) -> None:
    config = config_for(tmp_path, engine)
    promote(config, engine, {"batch_max_tokens": 512.0})

    async def story() -> None:
        async with running(config) as one:
            await one.until(
                lambda live: (live["engine"].get("values") or {}).get("batch_max_tokens") == 512.0
            )
            engine.changes.clear()
            engine.boot(batch_max_tokens=4096.0)
            live = await one.until(lambda live: notices(live, "the engine started otherwise"))
            await asyncio.sleep(0.5)
            live = await one.live()
            assert live["engine"]["values"]["batch_max_tokens"] == 4096.0
            assert engine.changes == []

    asyncio.run(story())
    assert times_said(said, "the engine started otherwise") == 1


@pytest.mark.parametrize("why", ["observe", "kill switch"])
def test_what_was_promoted_waits_while_nothing_may_be_changed(
    tmp_path: Path, engine: EngineStand, why: str
) -> None:
    config = config_for(tmp_path, engine, mode="observe" if why == "observe" else "act")
    promote(config, engine, {"batch_max_tokens": 512.0})
    if why == "kill switch":
        config.kill_switch_file.parent.mkdir(parents=True)
        config.kill_switch_file.touch()

    async def story() -> None:
        async with running(config) as one:
            await one.until(lambda live: notices(live, "what was promoted is not looked after"))
            assert engine.changes == []
            if why == "kill switch":
                config.kill_switch_file.unlink()
                await one.until(lambda live: live["engine"]["values"]["batch_max_tokens"] == 512.0)

    asyncio.run(story())


def npu_smi(tmp_path: Path, script: str) -> Path:
    path = tmp_path / "npu-smi"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.mark.parametrize(
    "script", [None, "exec sleep 30", "head -c 4000 /dev/urandom; exit 1", "echo 'dcmi failed'; exit 187"]
)
def test_an_npu_smi_that_fails_in_any_way_leaves_the_rest_alone(
    tmp_path: Path, engine: EngineStand, said: Said, script: str | None
) -> None:
    command = tmp_path / "nowhere" if script is None else npu_smi(tmp_path, script)
    settings = {"enabled": True, "command": str(command), "interval_seconds": 0.1, "timeout_seconds": 0.3}
    config = config_for(
        tmp_path,
        engine,
        collect={"npu_smi": settings, "vllm": {"interval_seconds": 0.1}, "host": {"enabled": False}},
    )

    async def story() -> None:
        async with running(config) as one:
            live = await one.until(
                lambda live: source(live, "npu_smi").get("success") is False and live["queue"]["running"] == 3
            )
            assert live["devices"] == []
            await asyncio.sleep(0.6)

    asyncio.run(story())
    assert sum(line.get("source") == "npu_smi" for line in said) == 1


def test_a_store_that_cannot_be_written_stops_changes_and_nothing_else(
    tmp_path: Path, engine: EngineStand, said: Said
) -> None:
    (tmp_path / "store").write_text("in the way")

    async def story() -> None:
        async with running(config_for(tmp_path, engine)) as one:
            await one.until(
                lambda live: (
                    live["queue"]["running"] == 3
                    and notices(live, "nothing is changed until it can be written")
                )
            )
            answer = await one.http.post("/api/v1/apply", json={"values": {"batch_max_tokens": 1024}})
            assert answer.status_code == 409
            assert engine.changes == []
            assert engine.values == LAUNCH
            (tmp_path / "store").unlink()
            await one.until(lambda live: not live["notices"])
            answer = await one.http.post("/api/v1/apply", json={"values": {"batch_max_tokens": 1024}})
            assert answer.status_code == 200, answer.text
            assert engine.values["batch_max_tokens"] == 1024.0

    asyncio.run(story())
    assert sum(line.get("notice") == "store" and line["log_level"] == "error" for line in said) == 1
    assert times_said(said, "the store can be written again") == 1


def test_a_full_disk_is_noticed(tmp_path: Path, engine: EngineStand, monkeypatch: pytest.MonkeyPatch) -> None:
    real = shutil.disk_usage

    async def story() -> None:
        async with running(config_for(tmp_path, engine)) as one:
            await one.until(lambda live: live["engine"]["reachable"])
            monkeypatch.setattr(shutil, "disk_usage", lambda path: real(path)._replace(free=1000))
            await one.until(lambda live: notices(live, "is full"))
            monkeypatch.setattr(shutil, "disk_usage", real)
            await one.until(lambda live: not notices(live, "is full"))

    asyncio.run(story())


def test_a_change_left_open_by_a_crash_is_taken_back_at_the_next_start(
    tmp_path: Path, engine: EngineStand
) -> None:
    config = config_for(tmp_path, engine)
    store = open_store(config.store_url)
    journal = Journal(store, engine.url)
    journal.open(
        "trial", f"stand-{engine.port}-1", "campaign 1", {"max_num_seqs": 64.0}, {"max_num_seqs": 256.0}, 1.0
    )
    engine.values["max_num_seqs"] = 64.0
    engine.epoch = 7

    async def story() -> None:
        async with running(config) as one:
            await one.until(lambda live: live["engine"].get("values") == LAUNCH)
            await one.until(lambda live: notices(live, "was left open"))

    asyncio.run(story())
    assert journal.open_entries() == []
    assert journal.last(1)[0].outcome == "recovered"
    store.close()


def test_while_another_process_changes_the_engine_its_open_change_is_left_alone(
    tmp_path: Path, engine: EngineStand, said: Said
) -> None:
    config = config_for(tmp_path, engine)
    boot_id = f"stand-{engine.port}-1"
    store = open_store(config.store_url)
    journal = Journal(store, engine.url)
    journal.open("trial", boot_id, "campaign 1", {"max_num_seqs": 64.0}, {"max_num_seqs": 256.0}, 1.0)
    engine.values["max_num_seqs"] = 64.0
    other = EngineLock(assembly.lock_dir(config), boot_id, "another campaign")
    other.acquire()

    async def story() -> None:
        async with running(config) as one:
            await one.until(lambda live: notices(live, "another campaign"))
            await asyncio.sleep(0.3)
            assert engine.changes == []
            other.release()
            await one.until(lambda live: live["engine"].get("values") == LAUNCH)
            await one.until(lambda live: not notices(live, "another campaign"))

    asyncio.run(story())
    assert journal.open_entries() == []
    assert times_said(said, "another campaign") == 1
    store.close()


def test_a_plugin_that_is_not_there_leaves_the_rest(tmp_path: Path, engine: EngineStand) -> None:
    engine.has_plugin = False

    async def story() -> None:
        async with running(config_for(tmp_path, engine)) as one:
            live = await one.until(
                lambda live: (
                    notices(live, "no hot lane")
                    and live["queue"]["running"] == 3
                    and live["engine"]["version"] == "0.32.0"
                )
            )
            assert live["engine"]["reachable"] is True
            answer = await one.http.post("/api/v1/tune", json={"mode": "act"})
            assert answer.status_code == 502
            engine.has_plugin = True
            live = await one.until(lambda live: live["engine"].get("plugin") is not None)
            assert not notices(live, "no hot lane")

    asyncio.run(story())


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
