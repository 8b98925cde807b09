"""A collector has its module, its tests, its fixtures and its row in docs/collectors.md."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import pytest

import collectors
from tests.prepare import ROOT

LIVE = {"host"}
"""Collectors that read the machine itself, for which there is nothing to capture."""


def homes() -> dict[str, str]:
    """The `name` of every class in the room that collects, and its module there, or its package."""
    found = {}
    for module_info in pkgutil.walk_packages(collectors.__path__, "collectors."):
        module = importlib.import_module(module_info.name)
        home = module_info.name.split(".")[1]
        for _, cls in inspect.getmembers(module, inspect.isclass):
            name = getattr(cls, "name", None)
            if (
                cls.__module__ == module.__name__
                and isinstance(name, str)
                and inspect.iscoroutinefunction(getattr(cls, "collect", None))
            ):
                found[name] = home
    assert all(name.startswith(home) for name, home in found.items()), "a collector has its module's name"
    return found


def test_all_are_found() -> None:
    npu_smi = {"npu_smi", "npu_smi_watch", "npu_smi_details"}
    assert set(homes()) >= {"vllm", "npu_exporter", "host"} | npu_smi


@pytest.mark.parametrize(("name", "home"), homes().items())
def test_a_collector_is_complete(name: str, home: str) -> None:
    tests = ROOT / "tests" / "collectors"
    own = name.removeprefix(home).strip("_") + "_collector" if name != home else "collector"
    assert (tests / f"test_{name}.py").is_file() or (tests / home / f"test_{own}.py").is_file()
    assert name in LIVE or any((tests / "fixtures" / home).iterdir())
    rows = [
        line for line in (ROOT / "docs" / "collectors.md").read_text().splitlines() if f"| `{name}` |" in line
    ]
    assert len(rows) == 1, f"docs/collectors.md has one row for {name}"
