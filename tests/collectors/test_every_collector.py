"""A collector has its module, its tests, its fixtures and its row in docs/collectors.md."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import pytest

import collectors
from tests.prepare import ROOT

LAID = {"host"}
"""Rooms of collectors whose tests lay a tree of files each; what is captured for all of them stands in one folder."""


def modules() -> dict[str, str]:
    """The `name` of every class in the room that collects, and the module it stands in."""
    found = {}
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
    assert set(modules()) >= {"vllm", "npu_smi", "npu_exporter", "host", "numa", "interrupts"}


@pytest.mark.parametrize("name", modules())
def test_a_collector_is_complete(name: str) -> None:
    room, *inner = modules()[name].split(".")
    tests = ROOT.joinpath("tests", room)
    assert tests.joinpath(*inner[:-1], f"test_{name}.py").is_file()
    assert any((tests / "fixtures" / (inner[0] if inner[0] in LAID else name)).iterdir())
    rows = [
        line for line in (ROOT / "docs" / "collectors.md").read_text().splitlines() if f"| `{name}` |" in line
    ]
    assert len(rows) == 1, f"docs/collectors.md has one row for {name}"
