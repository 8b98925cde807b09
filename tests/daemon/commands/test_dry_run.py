"""`trimtab tune --dry-run`: what a campaign would try of each lane, and why not the rest; nothing is changed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from change.server import Setting, Settings
from daemon import campaign_plan
from tests.daemon.engine_stand import LAUNCH, EngineStand
from tests.daemon.trimtab_command import Trimtab, one_line


class Lane:
    """A cold lane that is asked and restarts nothing."""

    def __init__(self) -> None:
        self.finished = False

    async def settings(self) -> Settings:
        return {"block_size": 128, "pipeline_parallel_size": 1, "gpu_memory_utilization": 0.9}

    async def problems(self, settings: Mapping[str, Setting]) -> list[str]:
        return ["no multiple of 128"] if settings.get("block_size", 128) != 128 else []

    async def finish(self) -> None:
        self.finished = True


@pytest.fixture
def lane(monkeypatch: pytest.MonkeyPatch) -> Lane:
    lane = Lane()
    monkeypatch.setattr(campaign_plan, "cold_lane", lambda *_: lane)
    return lane


def add(config: str, **sections: Any) -> None:
    path = Path(config)
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | sections))


def test_a_dry_run_says_what_would_be_tried_and_changes_nothing(
    trimtab: Trimtab, config: str, engine: EngineStand
) -> None:
    told = trimtab("tune", "--dry-run", "--json", "-c", config)
    assert told.code == 0
    assert told.json["incumbent"] == LAUNCH
    assert {row["name"] for row in told.json["search"]} == {"batch_max_tokens", "max_num_seqs"}
    assert engine.changes == []
    engine.scheduler_known = False
    assert trimtab("tune", "--dry-run", "-c", config).code == 1


def test_a_dry_run_names_the_knobs_of_the_host_apart(
    trimtab: Trimtab, config: str, engine: EngineStand
) -> None:
    with Path(config).open("a") as file:
        file.write("\ntune:\n  knobs: [placement, cpu_governor]\n")
    told = trimtab("tune", "--dry-run", "--json", "-c", config)
    # A knob of the whole node is not allowed by being named here alone.
    assert (told.code, told.json["search"], told.json["host_knobs"]) == (0, [], ["placement"])
    assert engine.changes == []


def test_without_restarts_it_says_how_to_allow_them(trimtab: Trimtab, config: str) -> None:
    cold = trimtab("tune", "--dry-run", "--json", "-c", config).json["cold"]
    assert cold["candidates"] == []
    assert "--restarts" in cold["why_not"]


def test_restarts_without_a_hand_say_what_to_configure(trimtab: Trimtab, config: str) -> None:
    told = trimtab("tune", "--dry-run", "--restarts", "4", "--json", "-c", config).json
    assert told["restarts"] == 4
    assert "engine.server.hand" in told["cold"]["why_not"]
    told = trimtab("tune", "--dry-run", "--restarts", "2", "-c", config)
    assert told.code == 2
    one_line(told)


def test_candidates_come_in_their_order_each_with_why_it_can_start_or_not(
    trimtab: Trimtab, config: str, engine: EngineStand, lane: Lane
) -> None:
    add(config, mode="act", tune={"restarts": 4})
    told = trimtab("tune", "--dry-run", "--json", "-c", config).json
    cold = told["cold"]
    tried = [(one["settings"], one["allowed"]) for one in cold["candidates"]]
    assert tried[0] == ({"block_size": 64}, False)
    assert ({"gpu_memory_utilization": 0.92}, True) in tried
    assert cold["candidates"][0]["why_not"] == ["no multiple of 128"]
    assert cold["most"] == 2
    held = {one["name"]: one["why"] for one in cold["held"]}
    assert "tune.cold.allow" in held["pipeline_parallel_size"]
    assert "does not say" in held["async_scheduling"]
    assert any("pipeline_parallel_size 4" in line for line in cold["skipped"])
    # A campaign with restarts moves no knob of the host.
    assert (told["host_knobs"], bool(told["host_note"])) == ([], True)
    assert engine.changes == []
    assert lane.finished


def test_people_read_the_same_lane_by_lane(trimtab: Trimtab, config: str, lane: Lane) -> None:
    told = trimtab("tune", "--dry-run", "--restarts", "5", "-c", config)
    assert told.code == 0
    hot, rest = told.out.split("host lane, ")
    assert "batch_max_tokens" in hot
    assert "5 restarts: 3 candidates at most" in rest
    assert "no multiple of 128" in rest
    assert "not moved: pipeline_parallel_size: " in rest
