"""The configuration's parts are what is built."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from collectors.history import History
from collectors.sample import Sample
from daemon import assembly
from daemon.config import CollectSection, Config, EngineSection, HostSource
from daemon.derived_section import DerivedSource
from tests.collectors.derived.stories import NOW, by_labels, card, every, fill_values


@pytest.fixture
def engine(tmp_path: Path) -> EngineSection:
    return EngineSection(run_dir=tmp_path)


def test_derived_figures_are_a_source_of_the_daemon_and_not_of_a_single_pass(engine: EngineSection) -> None:
    config = Config(deployment="sidecar", engine=engine)
    assert assembly.runner(config, History()).names == ["vllm", "host", "derived"]
    assert assembly.runner(config, History(), derive=False).names == ["vllm", "host"]


def test_derived_figures_can_be_switched_off(engine: EngineSection) -> None:
    collect = CollectSection(host=HostSource(enabled=False), derived=DerivedSource(enabled=False))
    config = Config(deployment="sidecar", engine=engine, collect=collect)
    assert assembly.runner(config, History()).names == ["vllm"]


def test_the_cards_of_each_engine_are_compared_among_themselves(engine: EngineSection) -> None:
    collect = CollectSection(derived=DerivedSource(cards=[[0, 1, 2], [13]]))
    history = History()
    for npu, usage in ((0, 0.9), (1, 0.9), (2, 0.3), (13, 0.0)):
        times = every(10.0, 400.0)
        fill_values(history, "npu_aicore_usage_ratio", card(npu), times, np.full(len(times), usage))
    runner = assembly.runner(Config(deployment="sidecar", engine=engine, collect=collect), history)
    samples: list[Sample] = asyncio.run(runner.once(NOW, "derived"))
    found = by_labels(samples, "npu_lagging_ratio")
    assert {dict(own)["npu"]: share for own, share in found.items()} == {"0": 0.0, "1": 0.0, "2": 1.0}
    assert history.latest("npu_lagging_ratio", card(2)) is not None
