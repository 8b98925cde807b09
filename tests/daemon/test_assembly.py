"""Which sources a configuration asks for, and that the optional ones are there only where what they read is."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from collectors.history import History
from daemon import assembly
from daemon.config import Config
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
