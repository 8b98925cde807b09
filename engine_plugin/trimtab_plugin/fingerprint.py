"""Which scheduler builds the hot lane is known to be safe in.

A fingerprint covers the source of what the hot knobs touch: the step of the scheduler, the admission of KV
blocks, and the loop that runs utility calls between steps. `python -m trimtab_plugin.fingerprint` prints the
installed vLLM's.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
from typing import Any

SCHEDULER_PARTS = ("__init__", "schedule", "_update_after_schedule", "_preempt_request")
ENGINE_PARTS = (
    "step",
    "step_with_batch_queue",
    "_process_input_queue",
    "_process_engine_step",
    "_handle_client_request",
)
CACHE_PARTS = ("allocate_slots",)
QUEUE_PARTS = ("add_request", "_enqueue_waiting_request")

KNOWN: dict[str, str] = {
    "b0a6e1f2653a6e9e": "vLLM 0.28.0 AsyncScheduler",
    "bc0cd220fcd411e4": "vLLM 0.28.0 Scheduler",
    "55f4a307dfc4beb3": "vLLM 0.28.0 AsyncScheduler, data parallel",
    "5dedf52a561bd90f": "vLLM 0.28.0 Scheduler, data parallel",
    "a79a07b423d11382": "vLLM 0.29.0 AsyncScheduler",
    "d7711dd37fd3c1c4": "vLLM 0.29.0 Scheduler",
    "c4009b48810ee4c1": "vLLM 0.29.0 AsyncScheduler, data parallel",
    "b31a52c20fa061dc": "vLLM 0.29.0 Scheduler, data parallel",
    "5e81e12bf3f72339": "vLLM 0.30.0 AsyncScheduler",
    "fbbf788a0511d1fe": "vLLM 0.30.0 Scheduler",
    "20fa6f05675de4cd": "vLLM 0.30.0 AsyncScheduler, data parallel",
    "e772f3eff946a230": "vLLM 0.30.0 Scheduler, data parallel",
    "516f2e89ecd5a7e2": "vLLM 0.31.0 AsyncScheduler",
    "5918e6acbadc74be": "vLLM 0.31.0 Scheduler",
    "682182cc640946e2": "vLLM 0.31.0 AsyncScheduler, data parallel",
    "4ef7a2adc62c943e": "vLLM 0.31.0 Scheduler, data parallel",
    "2d0658c84059cbaf": "vLLM 0.32.0 AsyncScheduler",
    "87634eae816ec17f": "vLLM 0.32.0 Scheduler",
    "818b82fccc66b301": "vLLM 0.32.0 AsyncScheduler, data parallel",
    "2ff1dea56d60d2c7": "vLLM 0.32.0 Scheduler, data parallel",
}
"""Fingerprint to the build it was read from."""

KNOWN_QUEUES: dict[str, str] = {
    "acb6b2cc59a8ddd7": "vLLM 0.28.0",
    "d1c244cb63530b7f": "vLLM 0.32.0",
}
"""Fingerprint of how requests are queued by priority to the build it was read from."""

NOT_CHECKED = {
    "vllm_ascend": "no build of vllm-ascend's own schedulers was checked, so hot changes are refused",
}
"""Package of a scheduler to why it is refused; by default vllm-ascend keeps vLLM's own scheduler."""


def fingerprint(scheduler_class: type, cache_class: type, engine_class: type) -> str:
    """Return 16 hex digits over the source of the relevant methods, overrides and patches included."""
    digest = hashlib.sha256()
    for cls, parts in (
        (scheduler_class, SCHEDULER_PARTS),
        (cache_class, CACHE_PARTS),
        (engine_class, ENGINE_PARTS),
    ):
        for part in parts:
            for base in cls.__mro__:
                method = base.__dict__.get(part)
                if method is None or base is object:
                    continue
                digest.update(f"{base.__name__}.{part}\n{inspect.getsource(method)}\n".encode())
    return digest.hexdigest()[:16]


def describe(engine_core: Any) -> tuple[str, str | None]:
    """Name the scheduler of `engine_core`; say why hot changes are refused there (None: they are safe)."""
    cls = type(engine_core.scheduler)
    name = f"{cls.__module__}.{cls.__qualname__}"
    try:
        found = fingerprint(cls, type(engine_core.scheduler.kv_cache_manager), type(engine_core))
    except (OSError, TypeError) as error:
        return name, f"the source of {name} cannot be read ({error}), so it cannot be known to be safe"
    name = f"{name}@{found}"
    if found in KNOWN:
        return name, None
    reason = NOT_CHECKED.get(cls.__module__.partition(".")[0])
    return name, reason or f"the scheduler {name} is not one that was checked; hot changes are refused"


def queue_fingerprint(scheduler_class: type, queue_class: type, request_class: type) -> str:
    """Return 16 hex digits over the source of how a scheduler takes a request in and orders those that wait."""
    digest = hashlib.sha256()
    for part in QUEUE_PARTS:
        for base in scheduler_class.__mro__:
            method = base.__dict__.get(part)
            if method is not None:
                digest.update(f"{base.__name__}.{part}\n{inspect.getsource(method)}\n".encode())
    digest.update(f"{queue_class.__name__}\n{inspect.getsource(queue_class)}\n".encode())
    order = inspect.getsource(request_class.__dict__["__lt__"])
    digest.update(f"{request_class.__name__}.__lt__\n{order}\n".encode())
    return digest.hexdigest()[:16]


def describe_queue(scheduler: Any) -> str | None:
    """Say why priority by size is refused in this build (None: it is safe); the policy is not looked at."""
    try:
        queue_class = type(scheduler.waiting)
        request_class = sys.modules[queue_class.__module__].__dict__["Request"]
        found = queue_fingerprint(type(scheduler), queue_class, request_class)
    except (OSError, TypeError, AttributeError, KeyError) as error:
        return f"how this build queues requests cannot be read ({type(error).__name__}: {error})"
    if found in KNOWN_QUEUES:
        return None
    return f"how this build queues requests (@{found}) was not checked"


def main() -> None:
    """Print the fingerprints of the installed vLLM's schedulers, with data parallelism and without."""
    from vllm import __version__
    from vllm.v1.core.kv_cache_manager import KVCacheManager
    from vllm.v1.core.sched.async_scheduler import AsyncScheduler
    from vllm.v1.core.sched.request_queue import PriorityRequestQueue
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.engine.core import DPEngineCoreProc, EngineCoreProc
    from vllm.v1.request import Request

    for scheduler in (Scheduler, AsyncScheduler):
        for engine in (EngineCoreProc, DPEngineCoreProc):
            found = fingerprint(scheduler, KVCacheManager, engine)
            print(f'    "{found}": "vLLM {__version__} {scheduler.__name__} {engine.__name__}",')  # noqa: T201
    found = queue_fingerprint(Scheduler, PriorityRequestQueue, Request)
    print(f'    "{found}": "vLLM {__version__}",')  # noqa: T201


if __name__ == "__main__":
    main()
