"""The canary of a configuration: read as an engine of its own, looked after between campaigns, its lock its own."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from change.journal import Journal
from change.lock import EngineLock
from collectors.history import History
from collectors.sample import SERVER, Sample, labels
from daemon.canary import Canary, canary, canary_config
from daemon.config import Config
from daemon.engine_sources import engine_sources
from daemon.gauges import one_engine_gauges
from daemon.headless import START
from daemon.modes import Modes
from daemon.notices import Notices
from sim.node import Node
from store import open_store
from tests.daemon.engine_stand import TOKEN, EngineStand
from tests.daemon.living import config_for, notices, running
from web.body import Refused

HOOK = [sys.executable, "-c", "import sys; sys.exit('no engine here')"]


def section(tmp_path: Path, url: str = "http://127.0.0.1:8001", **more: Any) -> dict[str, Any]:
    token = tmp_path / "canary-token"
    token.write_text(TOKEN)
    hook = {"look": HOOK, "start": HOOK, "stop": HOOK}
    return {"url": url, "token_file": str(token), "server": {"hand": "hook", "hook": hook}, **more}


def one(tmp_path: Path, node: Node, store: Any = None) -> tuple[Canary, Journal]:
    config = Config.model_validate(
        {"tune": {"canary": section(tmp_path)}, "engine": {"run_dir": str(tmp_path / "run")}}
    )
    memory = store or open_store("sqlite:///:memory:")
    stop = tmp_path / "stop"
    found = canary(
        config,
        node.control,
        memory,
        History(),
        Modes("act", tmp_path / "paused", stop, ()),
        Notices(lambda: START),
    )
    return found, Journal(memory, "http://127.0.0.1:8001")


@pytest.fixture
def node() -> Node:
    return Node("guide-235b-plain", 1, START)


def test_it_is_read_as_an_engine_that_is_otherwise_like_the_one_beside_it(tmp_path: Path) -> None:
    key = tmp_path / "key"
    config = Config.model_validate(
        {
            "engine": {"api_key_file": str(key), "timeout_seconds": 2, "metrics_url": "http://127.0.0.1:9"},
            "tune": {"canary": section(tmp_path)},
            "slo": {"ttft_p99_seconds": 1},
        }
    )
    own = canary_config(config)
    assert (own.engine.url, own.engine.metrics_url) == ("http://127.0.0.1:8001", None)
    assert own.engine.api_key_file == key and own.engine.timeout_seconds == 2
    assert own.engine.server.hand == "hook"
    # What this node's cards and the tuned engine's latencies are says nothing of it.
    assert not own.reads_npu_smi and not own.slo.limits().limits


def test_it_is_watched_and_its_readings_are_not_the_engines(tmp_path: Path) -> None:
    config = Config.model_validate({"tune": {"canary": section(tmp_path)}})
    assert [source.name for source in engine_sources(config)][-1] == "engine:canary"
    assert config.own_card("0") is None
    history = History()
    waiting = "trimtab_engine_requests_waiting"
    history.add(
        [Sample(waiting, 3.0, START, labels(**{SERVER: "canary"})), Sample(waiting, 9.0, START)], "vllm"
    )
    assert one_engine_gauges(history, labels(**{SERVER: "canary"}))(START).waiting == 3.0


def test_a_campaign_has_its_lock_until_it_is_released(tmp_path: Path, node: Node) -> None:
    found, _ = one(tmp_path, node)
    lock = EngineLock(tmp_path / "run" / "locks", node.control.boot_id, "another")

    async def story() -> None:
        await found.replica(START)
        with pytest.raises(Exception, match="a campaign on the canary"):
            lock.acquire()
        found.release()
        lock.acquire()
        with pytest.raises(Refused, match="another"):
            await found.replica(START)
        lock.release()

    asyncio.run(story())


def test_hot_values_that_a_crash_left_open_are_taken_back(tmp_path: Path, node: Node) -> None:
    store = open_store("sqlite:///:memory:")
    found, journal = one(tmp_path, node, store)
    state = node.control.read_state()
    own = {"max_num_seqs": state.values["max_num_seqs"]}

    async def story() -> None:
        journal.open("trial", state.boot_id, "campaign 1", {"max_num_seqs": 64.0}, own, START)
        await node.control.set_knobs({"max_num_seqs": 64.0}, if_epoch=state.epoch, lease_seconds=None)
        await found.tick(START + 1.0)

    asyncio.run(story())
    assert journal.open_entries() == []
    assert node.control.read_state().values["max_num_seqs"] == own["max_num_seqs"]


def test_the_daemon_tries_start_up_settings_on_the_canary_and_says_why_it_cannot(
    tmp_path: Path, engine: EngineStand
) -> None:
    async def story() -> None:
        config = config_for(tmp_path, engine, tune={"canary": section(tmp_path, second.url)})
        async with running(config) as living:
            await living.until(lambda live: live["engine"].get("plugin") is not None)
            answer = await living.http.post("/api/v1/tune", json={"mode": "act", "restarts": 4})
            assert answer.status_code == 200, answer.text
            live = await living.until(lambda live: live["last_campaign"] is not None)
            assert live["last_campaign"]["decision"] == "aborted"
            assert "no engine here" in live["last_campaign"]["reasons"][0]
            assert not notices(live, "campaign loop failed")
            # Neither lock is left behind.
            assert not list((tmp_path / "run" / "locks").glob("*.lock"))

    with EngineStand() as second:
        asyncio.run(story())
    assert second.changes == [] and engine.changes == []
