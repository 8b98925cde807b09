"""vLLM's general plugin entry point: gives `EngineCore` the utility method the API process calls.

The method lives under one name in every process that loads vLLM's plugins; the controller behind it is made
at the first call, in the engine process, and an engine nobody asks is left exactly as it was.
"""

from __future__ import annotations

import importlib.util
import logging
import sys
from collections.abc import Mapping
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from trimtab_plugin.control import Answer, Controller
from trimtab_plugin.fingerprint import describe, describe_queue
from trimtab_plugin.settings import disabled

logger = logging.getLogger("vllm.trimtab")

METHOD = "trimtab_call"
MODULE = "vllm.v1.engine.core"


def trimtab_call(self: Any, request: Mapping[str, Any]) -> Answer:
    """Answer the API process on the engine's thread, between two steps; `self` is the EngineCore."""
    controller = self.__dict__.get("_trimtab_controller")
    if controller is None:
        name, refusal = describe(self)
        controller = self._trimtab_controller = Controller(
            self.scheduler, name=name, refusal=refusal, queue_refusal=describe_queue(self.scheduler)
        )
    answer: Answer = controller.call(request)
    return answer


def register() -> None:
    """Add the utility method to `EngineCore`, now or when its module is first imported."""
    if disabled():
        return
    module = sys.modules.get(MODULE)
    if module is not None and hasattr(module, "EngineCore"):
        _add_method(module)
    elif not any(isinstance(finder, _AfterImport) for finder in sys.meta_path):
        # Importing it here would pull half of vLLM in before its command line is read.
        sys.meta_path.insert(0, _AfterImport())


def _add_method(module: ModuleType) -> None:
    setattr(module.EngineCore, METHOD, trimtab_call)


class _AfterImport(MetaPathFinder):
    """Lets the usual finders load vLLM's engine module, then adds the method."""

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname != MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                _add_method(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
