"""The daemon goes on whatever breaks around it, says so once, and recovers by itself."""

from __future__ import annotations

import asyncio
import shutil
import stat
from pathlib import Path

import pytest

from tests.daemon.engine_stand import LAUNCH, EngineStand
from tests.daemon.living import Said, config_for, notices, running, source, times_said

pytestmark = pytest.mark.usefixtures("quick")


def test_an_engine_that_is_gone_is_said_once_and_found_again(
    tmp_path: Path, engine: EngineStand, said: Said
) -> None:
    async def story() -> None:
        async with running(config_for(tmp_path, engine)) as one:
            live = await one.until(lambda live: live["engine"]["reachable"] and live["queue"]["running"] == 3)
            assert live["engine"]["model"] == "stand-model"
            assert live["engine"]["values"] == LAUNCH
            engine.stop()
            await one.until(
                lambda live: (
                    live["engine"]["reachable"] is False
                    and live["queue"]["running"] is None
                    and bool(notices(live, "nobody answers"))
                )
            )
            await asyncio.sleep(0.5)
            engine.start()
            await one.until(
                lambda live: (
                    live["engine"]["reachable"]
                    and live["queue"]["running"] == 3
                    and not notices(live, "nobody answers")
                )
            )

    asyncio.run(story())
    assert times_said(said, "nobody answers") == 1
    assert times_said(said, "the engine answers again") == 1


@pytest.mark.parametrize("fault", ["cut", "garbage", "hang"])
def test_a_broken_metrics_page_is_absent_not_zero(
    tmp_path: Path, engine: EngineStand, said: Said, fault: str
) -> None:
    async def story() -> None:
        # Only a page that hangs takes as long as the time-out.
        patience = 3.0 if fault == "hang" else 10.0
        async with running(config_for(tmp_path, engine, patience=patience)) as one:
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


def test_a_change_of_the_host_by_hand_asks_the_adaptive_mode_to_give_way_first(
    tmp_path: Path, engine: EngineStand, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with running(config_for(tmp_path, engine)) as one:
            asked: list[str] = []

            async def give_way(reason: str, now: float) -> None:
                asked.append(reason)

            monkeypatch.setattr(one.daemon.adaptive, "give_way", give_way)
            # Refused as there is nothing to do: it is the order that counts.
            await one.http.post("/api/v1/host/apply", json={"changes": {"no_such_knob": "1"}})
            await one.http.post("/api/v1/host/rollback", json={"n": 1})
            assert asked == ["a change of the host by hand", "a rollback of the host"]

    asyncio.run(story())
