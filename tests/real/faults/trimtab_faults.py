"""Faults in an engine that starts with a telling `--max-num-seqs`; it is put on a real vLLM's path in tests."""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

HANGS = 1001
"""Never ends loading its weights."""
MUTE = 1002
"""Answers every request for tokens with 500."""
SLOW = 1003
"""Takes `SLOW_SECONDS` longer for each step."""
OUT_OF_MEMORY = 1004
"""Fails in loading its weights, with the words of torch_npu."""
SLOW_SECONDS = 0.8
NPU_WORDS = (
    "NPU out of memory. Tried to allocate 2.00 GiB (NPU 0; 60.97 GiB total capacity; 58.10 GiB already allocated; "
    "58.10 GiB current active; 1.02 GiB free; 58.90 GiB reserved in total by PyTorch)"
)


def asked() -> int:
    """The `--max-num-seqs` of this process's command."""
    words = sys.argv
    try:
        return int(words[words.index("--max-num-seqs") + 1])
    except (ValueError, IndexError):
        return 0


def load() -> None:
    """Entry point of vLLM's general plugins, in each of its processes."""
    if asked() in (HANGS, OUT_OF_MEMORY):
        from vllm.model_executor.model_loader import dummy_loader

        dummy_loader.DummyModelLoader.load_weights = _load_weights
    elif asked() == SLOW:
        from vllm.v1.worker.gpu_worker import Worker

        execute = Worker.execute_model

        def slowly(*arguments: Any, **more: Any) -> Any:
            time.sleep(SLOW_SECONDS)
            return execute(*arguments, **more)

        Worker.execute_model = slowly


def _load_weights(*_: Any, **__: Any) -> None:
    if asked() == OUT_OF_MEMORY:
        raise RuntimeError(NPU_WORDS)
    time.sleep(3600)


Message = dict[str, Any]


class Middleware:
    """In the way of requests for tokens only."""

    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        self._app = app

    async def __call__(
        self, scope: Message, receive: Any, send: Callable[[Message], Awaitable[None]]
    ) -> None:
        if asked() == MUTE and scope["type"] == "http" and scope["path"].startswith("/v1/completions"):
            await send({"type": "http.response.start", "status": 500, "headers": []})
            await send({"type": "http.response.body", "body": b"injected"})
            return
        await self._app(scope, receive, send)
