"""How the utility method gets into vLLM's engine class."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest
from trimtab_plugin import core

from tests.engine_plugin.fake_engine import FakeScheduler


@pytest.fixture(autouse=True)
def clean_import_system() -> Iterator[None]:
    modules, finders = dict(sys.modules), list(sys.meta_path)
    yield
    sys.meta_path[:] = finders
    for name in set(sys.modules) - set(modules):
        if name.startswith("vllm"):
            del sys.modules[name]


def vllm_on_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = folder / "vllm" / "v1" / "engine"
    package.mkdir(parents=True)
    for path in (folder / "vllm", folder / "vllm" / "v1", package):
        (path / "__init__.py").write_text("")
    (package / "core.py").write_text("class EngineCore:\n    pass\n")
    monkeypatch.syspath_prepend(folder)


def test_it_waits_for_the_engine_module_and_imports_nothing_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vllm_on_disk(tmp_path, monkeypatch)
    core.register()
    core.register()
    assert core.MODULE not in sys.modules
    module = importlib.import_module(core.MODULE)
    assert module.EngineCore.trimtab_call is core.trimtab_call
    assert not any(isinstance(finder, core._AfterImport) for finder in sys.meta_path)


def test_it_adds_the_method_at_once_where_the_module_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vllm_on_disk(tmp_path, monkeypatch)
    module = importlib.import_module(core.MODULE)
    core.register()
    assert module.EngineCore.trimtab_call is core.trimtab_call


def test_switched_off_it_touches_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vllm_on_disk(tmp_path, monkeypatch)
    monkeypatch.setattr(core, "disabled", lambda: True)
    core.register()
    assert not hasattr(importlib.import_module(core.MODULE).EngineCore, "trimtab_call")


def test_the_controller_is_made_at_the_first_call_and_kept() -> None:
    engine_core = types.SimpleNamespace(scheduler=FakeScheduler())
    first = core.trimtab_call(engine_core, {"op": "state"})
    assert core.trimtab_call(engine_core, {"op": "state"})["boot_id"] == first["boot_id"]
    assert first["scheduler"].startswith("tests.engine_plugin.fake_engine.FakeScheduler@")
    assert first["scheduler_known"] is False
