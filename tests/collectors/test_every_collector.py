"""A collector has its module, its tests, its fixtures and its row in docs/collectors.md."""

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


def names() -> list[str]:
    """The `name` of every class in the room that collects, and of every kind of engine that one class reads."""
    found: list[tuple[str, str]] = [(kind, kind) for kind in KINDS]
    for module_info in pkgutil.walk_packages(collectors.__path__, "collectors."):
        module = importlib.import_module(module_info.name)
        found += [
            (str(getattr(cls, "name")), module_info.name.rpartition(".")[2])  # noqa: B009
            for _, cls in inspect.getmembers(module, inspect.isclass)
            if cls.__module__ == module.__name__
            and isinstance(getattr(cls, "name", None), str)
            and inspect.iscoroutinefunction(getattr(cls, "collect", None))
        ]
    assert all(name == module for name, module in found), "a collector's module has the collector's name"
    return [name for name, _ in found]


def test_all_are_found() -> None:
    assert set(names()) >= {
        "vllm",
        "sglang",
        "mindie",
        "stall_probe",
        "npu_smi",
        "npu_exporter",
        "host",
        "derived",
    }


@pytest.mark.parametrize("name", names())
def test_a_collector_is_complete(name: str) -> None:
    assert any((ROOT / "tests" / "collectors").rglob(f"test_{name}.py"))
    assert name in LIVE | COMPUTED or any((ROOT / "tests" / "collectors" / "fixtures" / name).iterdir())
    rows = [
        line for line in (ROOT / "docs" / "collectors.md").read_text().splitlines() if f"| `{name}` |" in line
    ]
    assert len(rows) == 1, f"docs/collectors.md has one row for {name}"
