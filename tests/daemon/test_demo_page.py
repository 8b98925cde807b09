"""The demo's cards are read through the same parsers as real ones; its restarts are the daemon's own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from collectors.history import History
from collectors.sample import Sample, labels
from daemon import live
from daemon.demo_page import (
    DETAILS_SECONDS,
    HOT_MINUTES,
    NodeCards,
    SteppedClock,
    demo_config,
    demo_daemon,
    demo_runner,
)
from daemon.demo_page import (
    live as let_live,
)
from daemon.loops import Daemon
from daemon.sections.playbooks import PlaybooksSection
from sim.node import Node
from sim.scenario import SCENARIOS

START = 1_700_000_000.0
OWN = labels(npu="0", chip="0", name="910B4")


def test_the_table_the_watch_and_the_types_are_shown_and_the_types_seldom_read() -> None:
    node = Node("default", 3, START)
    cards = NodeCards(node)

    def read(seconds: float) -> dict[str, Sample]:
        node.advance(START + seconds)
        return {one.name: one for one in asyncio.run(cards.collect(node.now)) if one.labels == OWN}

    first = read(10.0)
    names = {
        "npu_hbm_used_bytes",
        "npu_mem_bandwidth",
        "npu_vector_usage_ratio",
        "npu_aicore_frequency_hertz",
    }
    assert names <= set(first)
    assert {first[name].time for name in names} == {START + 10.0}
    second = read(12.0)
    assert second["npu_mem_bandwidth"].time == START + 12.0
    assert second["npu_vector_usage_ratio"].time == START + 10.0
    third = read(10.0 + DETAILS_SECONDS)
    assert third["npu_vector_usage_ratio"].time == START + 10.0 + DETAILS_SECONDS


def test_the_demo_says_what_its_engine_is_and_derives_figures() -> None:
    node, history = Node("default", 3, START), History()
    runner = demo_runner(node, history)

    async def some_minutes() -> None:
        for second in range(2, 302, 2):
            node.advance(START + second)
            await runner.once(node.now)

    asyncio.run(some_minutes())
    info = history.latest("trimtab_engine_info")
    assert info is not None and dict(info.labels)["kind"] == "vllm"
    named = {sign["name"]: sign["value"] for sign in live.signs(history)}
    assert 0.0 <= named["queue_share_ratio"] <= 1.0
    assert 0.0 <= named["kv_free_ratio"] <= 1.0
    assert all(health.success for health in runner.health())


@contextlib.contextmanager
def demo(scenario: str, folder: Path) -> Iterator[tuple[Node, Daemon, SteppedClock]]:
    node = Node(scenario, 101, START)
    clock = SteppedClock(node)
    config = demo_config(SCENARIOS[scenario], None, 0, folder, None)
    yield node, demo_daemon(node, config, clock), clock


def test_a_restart_of_the_demo_is_told_on_its_way_in_the_nodes_time(tmp_path: Path) -> None:
    with demo("guide-235b", tmp_path) as (node, daemon, clock):

        async def scene() -> tuple[dict[str, Any], list[dict[str, Any]]]:
            await daemon.second(node.now)
            order = asyncio.create_task(daemon.body.apply({"block_size": 64}, restart=True))
            told = []
            while not order.done():
                node.advance(node.now + 1.0)
                clock.step()
                await asyncio.sleep(0)
                now = daemon.body.live(node.now)["restart"]
                if now is not None:
                    told.append(now)
            return await order, told

        done, told = asyncio.run(scene())
    assert (done["outcome"], done["effective"]["block_size"]) == ("done", 64)
    phases = list(dict.fromkeys(one["phase"] for one in told))
    assert phases.index("drain") < phases.index("load")
    loading = [one["phase_seconds"] for one in told if one["phase"] == "load"]
    assert loading == sorted(loading) and loading[-1] > 60.0
    assert any("weights loaded" in one["line"] for one in told)
    assert daemon.body.live(node.now)["restart"] is None


def test_the_demo_evaluates_its_rules_in_the_nodes_time_and_none_fires(tmp_path: Path) -> None:
    with demo("default", tmp_path) as (node, daemon, clock):

        async def scene() -> None:
            lives = asyncio.create_task(let_live(node, daemon, clock, 1e6))
            await clock.sleep(300.0)
            daemon.stop.set()
            await lives

        asyncio.run(scene())
        seen = daemon.body.alerts()
        status = daemon.body.live(node.now)
    groups = seen["groups"]
    assert {group["missed"] for group in groups} == {0}
    assert all(node.now - group["last_evaluation"] <= group["interval_seconds"] + 1.0 for group in groups)
    assert [one["name"] for one in seen["alerts"] if one["state"] == "firing"] == []
    assert status["alerts_firing"] == 0


def test_the_demos_host_is_the_simulated_one_in_texts(tmp_path: Path) -> None:
    with demo("ttft-32b", tmp_path) as (node, daemon, _):
        rows = {row["name"]: row for row in asyncio.run(daemon.body.knobs())}
        assert rows["placement"]["value"] == "as_found"
        assert rows["swappiness"]["value"] is None, "its story has none"
        live = daemon.body.live(node.now)
    assert live["host"]["values"]["placement"] == "as_found"
    assert live["host"]["seen"] == node.now


def test_a_demo_spends_the_storys_restarts_on_short_hot_campaigns(tmp_path: Path) -> None:
    story = SCENARIOS["guide-235b"]
    tune = demo_config(story, None, 0, tmp_path, None).tune
    assert (tune.restarts, tune.minutes) == (story.restarts, HOT_MINUTES)
    tune = demo_config(story, 90.0, 0, tmp_path, 0).tune
    assert (tune.restarts, tune.minutes) == (0, 90.0)


KINDS = ("plog", "dmesg", "memory", "msprof")


@pytest.fixture
def real_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host with a plog, a kernel's log, an NPU and its tools; the file names what of them was read or run."""
    touched = tmp_path / "touched"
    log = tmp_path / "home" / "ascend" / "log" / "run" / "plog" / "plog-1_20231114221320000.log"
    log.parent.mkdir(parents=True)
    log.write_text("[ERROR] HCCL(1,python):2023-11-14-22:13:20.000.000 real\n")
    os.utime(log, (START, START))
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("msprof", "npu-smi"):
        tool = tools / name
        tool.write_text(f"#!/bin/sh\necho {name} >> {touched}\n")
        tool.chmod(0o755)

    def no_name(*_: object, **__: object) -> None:
        raise socket.gaierror("no such name")

    class Kernel:
        def __init__(self, *_: object, **__: object) -> None:
            with touched.open("a") as file:
                file.write("kmsg\n")
            raise OSError("no kernel's log")

    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.setattr(socket, "getaddrinfo", no_name)
    monkeypatch.setattr("daemon.acting.looks.KernelLog", Kernel)
    monkeypatch.setattr("daemon.profile.taking._device_files", lambda: [0])
    return touched


def test_a_playbook_of_the_demo_touches_nothing_of_the_real_host(tmp_path: Path, real_host: Path) -> None:
    steps: list[dict[str, Any]] = [{"name": kind, "capture": kind, "seconds": 1} for kind in KINDS]
    steps.append({"name": "cause", "diagnose": "nothing", "cause": "none"})
    steps.append({"name": "tell", "act": {"kind": "notify", "arguments": {"text": "done"}}})
    book = {"name": "look", "title": "Look", "description": "Look.", "guide": "None.", "cooldown": "1min"}
    file, folder = tmp_path / "look.yaml", tmp_path / "demo"
    file.write_text(yaml.safe_dump({"playbooks": [book | {"steps": steps}]}))
    folder.mkdir()
    node = Node("default", 101, START)
    config = demo_config(SCENARIOS["default"], None, 0, folder, None)
    config = config.model_copy(update={"playbooks": PlaybooksSection(files=[file])})
    daemon = demo_daemon(node, config, SteppedClock(node))

    async def scene() -> None:
        await daemon.alert_second(node.now)
        await daemon.body.run_playbook("look", {}, dry_run=False)
        for _ in range(60):
            await daemon.playbooks.walker.finish()
            node.advance(node.now + 1.0)
            await daemon.alert_second(node.now)

    asyncio.run(scene())
    assert dict(daemon.playbooks.walker.counts.runs) == {("look", "succeeded"): 1}
    assert not real_host.exists(), real_host.read_text()
    summaries = [path.parent.name for path in (folder / "captures").rglob("summary.json")]
    assert sorted(name.partition("-")[2] for name in summaries) == ["dmesg", "memory", "plog"]
    assert not list((folder / "captures").rglob("*.txt")), "nothing was there to be read"
    assert not (tmp_path / "state-home" / "trimtab" / "captures").exists()
