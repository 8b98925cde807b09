"""Every collector has its module, its test, its captured text and its line in the docs."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import pytest

import collectors
from collectors.engines.kinds import KINDS
from tests.prepare import ROOT

LIVE = {"host", "stall_probe", "torch_npu"}
"""Collectors that read the machine or the process itself or ask a running engine: nothing to capture."""
COMPUTED = {"derived"}
"""Collectors that read the history, whose tests make the readings."""
TOGETHER = {"host", "npu_smi"}
"""Packages whose captured text stands in one folder for all of their collectors."""


def modules() -> dict[str, str]:
    """The `name` of every class in the room that collects, and of every kind of engine, and where each stands."""
    found: dict[str, str] = {kind: f"collectors.engines.{kind}" for kind in KINDS}
    for module_info in pkgutil.walk_packages(collectors.__path__, "collectors."):
        module = importlib.import_module(module_info.name)
        for _, cls in inspect.getmembers(module, inspect.isclass):
            name = getattr(cls, "name", None)
            collects = inspect.iscoroutinefunction(getattr(cls, "collect", None))
            if cls.__module__ == module.__name__ and isinstance(name, str) and collects:
                found[name] = module_info.name
    wrong = {name: module for name, module in found.items() if module.rpartition(".")[2] != name}
    assert not wrong, f"a collector's module has the collector's name: {wrong}"
    return found


def test_all_are_found() -> None:
    assert set(modules()) >= {
        *("vllm", "sglang", "mindie", "stall_probe", "npu_smi", "npu_exporter", "dcmi", "hccn", "torch_npu"),
        *("host", "numa", "interrupts", "logs", "derived"),
    }


@pytest.mark.parametrize("name", modules())
def test_it_is_tested_captured_and_documented(name: str) -> None:
    room, *inner = modules()[name].split(".")
    tests = ROOT / "tests" / room
    assert any(tests.rglob(f"test_{name}.py"))
    captured = tests / "fixtures" / (inner[0] if inner[0] in TOGETHER else name)
    assert name in LIVE | COMPUTED or any(captured.iterdir())
    assert f"| `{name}` |" in (ROOT / "docs" / "collectors.md").read_text()
