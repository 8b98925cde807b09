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

COMPUTED = {"derived"}
"""Collectors that read the history, whose tests make the readings."""


def names() -> list[str]:
    """The `name` of every class in the room that collects."""
    found = []
    for module_info in pkgutil.iter_modules(collectors.__path__):
        module = importlib.import_module(f"collectors.{module_info.name}")
        found += [
            (str(getattr(cls, "name")), module_info.name)  # noqa: B009
            for _, cls in inspect.getmembers(module, inspect.isclass)
            if cls.__module__ == module.__name__
            and isinstance(getattr(cls, "name", None), str)
            and inspect.iscoroutinefunction(getattr(cls, "collect", None))
        ]
    assert all(name == module for name, module in found), "a collector's module has the collector's name"
    return [name for name, _ in found]


def test_all_are_found() -> None:
    assert set(names()) >= {"vllm", "npu_smi", "npu_exporter", "host", "derived"}


@pytest.mark.parametrize("name", names())
def test_a_collector_is_complete(name: str) -> None:
    assert (ROOT / "tests" / "collectors" / f"test_{name}.py").is_file()
    assert name in LIVE | COMPUTED or any((ROOT / "tests" / "collectors" / "fixtures" / name).iterdir())
    rows = [
        line for line in (ROOT / "docs" / "collectors.md").read_text().splitlines() if f"| `{name}` |" in line
    ]
    assert len(rows) == 1, f"docs/collectors.md has one row for {name}"
