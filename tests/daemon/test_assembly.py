"""Which sources a configuration asks for, and that the optional ones are there only where what they read is."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from collectors.history import History
from collectors.sample import Sample
from daemon import assembly
from daemon.config import Config
from daemon.sections.collect import CollectSection
from daemon.sections.derived import DerivedSource
from daemon.sections.engine import EngineSection
from tests.collectors.derived.stories import NOW, by_labels, card, every, fill_values
from tests.collectors.programs import program


def names(collect: Mapping[str, object], deployment: str = "node") -> list[str]:
    config = Config.model_validate({"deployment": deployment, "collect": collect})
    return assembly.runner(config, History()).names


@pytest.fixture
def there(tmp_path: Path) -> dict[str, object]:
    """A machine with the driver's library, its tool and its file."""
    library, conf = tmp_path / "libdcmi.so", tmp_path / "hccn.conf"
    library.touch()
    conf.touch()
    tool = program(tmp_path, "true", "hccn_tool")
    return {"dcmi": {"library": str(library)}, "hccn": {"command": tool, "config_file": str(conf)}}


@pytest.fixture
def away(tmp_path: Path) -> dict[str, object]:
    gone = str(tmp_path / "gone")
    return {"dcmi": {"library": gone}, "hccn": {"command": gone, "config_file": gone}}


def test_optional_sources_are_on_where_what_they_read_is(there: dict[str, object]) -> None:
    assert {"dcmi", "hccn"} <= set(names(there))


def test_they_are_off_where_it_is_not(away: dict[str, object], there: dict[str, object]) -> None:
    assert not {"dcmi", "hccn", "torch_npu"} & set(names(away))
    hccn = there["hccn"]
    assert isinstance(hccn, dict)
    Path(hccn["config_file"]).unlink()
    assert "hccn" not in names(there)


def test_a_sidecar_opens_no_device(there: dict[str, object]) -> None:
    assert not {"dcmi", "hccn", "npu_smi"} & set(names(there, "sidecar"))


def test_the_file_has_the_last_word(there: dict[str, object], away: dict[str, object]) -> None:
    for machine, said in ((there, False), (away, True)):
        collect = {
            name: {**section, "enabled": said}
            for name, section in machine.items()
            if isinstance(section, dict)
        }
        assert ({"dcmi", "hccn"} <= set(names(collect))) is said


def test_npu_exporters_page_is_read_by_two() -> None:
    found = names({"npu_exporter": {"url": "http://127.0.0.1:8082/metrics"}}, "sidecar")
    assert {"npu_exporter", "npu_exporter_links"} <= set(found)


def test_the_allocator_is_read_only_within_a_process_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "torch_npu" not in names({})
    module = ModuleType("torch_npu")
    vars(module)["npu"] = SimpleNamespace()
    monkeypatch.setitem(sys.modules, "torch_npu", module)
    assert "torch_npu" in names({})


@pytest.fixture
def engine(tmp_path: Path) -> EngineSection:
    return EngineSection(run_dir=tmp_path)


def test_derived_figures_are_a_source_of_the_daemon_and_not_of_a_single_pass(engine: EngineSection) -> None:
    config = Config(deployment="sidecar", engine=engine)
    assert "derived" in assembly.runner(config, History()).names
    assert "derived" not in assembly.runner(config, History(), lasting=False).names


def test_derived_figures_can_be_switched_off(engine: EngineSection) -> None:
    config = Config(
        deployment="sidecar", engine=engine, collect=CollectSection(derived=DerivedSource(enabled=False))
    )
    assert "derived" not in assembly.runner(config, History()).names


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
