"""Which schedulers are known to be safe."""

from __future__ import annotations

import types

import pytest
from trimtab_plugin import fingerprint as module

from tests.engine_plugin.fake_engine import FakeCache, FakeScheduler
from tests.engine_plugin.priority_scheduler import PriorityRequestQueue, PriorityScheduler, Request


class Engine:
    def step(self) -> None:
        """A step."""


class Patched(FakeScheduler):
    def schedule(self, throttle_prefills: bool = False) -> dict[str, int]:
        return super().schedule(throttle_prefills)


def test_an_override_of_the_step_changes_the_fingerprint() -> None:
    plain = module.fingerprint(FakeScheduler, FakeCache, Engine)
    assert plain == module.fingerprint(FakeScheduler, FakeCache, Engine)
    assert plain != module.fingerprint(Patched, FakeCache, Engine)


def test_a_patch_at_run_time_changes_the_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = module.fingerprint(FakeScheduler, FakeCache, Engine)
    monkeypatch.setattr(FakeScheduler, "schedule", Patched.schedule)
    assert plain != module.fingerprint(FakeScheduler, FakeCache, Engine)


def test_a_known_build_is_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine()
    engine.scheduler = FakeScheduler()  # type: ignore[attr-defined]
    name, refusal = module.describe(engine)
    assert refusal is not None
    assert name in refusal
    monkeypatch.setitem(module.KNOWN, name.partition("@")[2], "the tests' own")
    assert module.describe(engine) == (name, None)


def test_a_scheduler_of_vllm_ascend_is_named_in_the_refusal() -> None:
    engine = Engine()
    other = type(
        "RecomputeScheduler", (FakeScheduler,), {"__module__": "vllm_ascend.core.recompute_scheduler"}
    )
    engine.scheduler = other()  # type: ignore[attr-defined]
    assert "vllm-ascend" in (module.describe(engine)[1] or "")


def test_a_scheduler_without_source_is_refused() -> None:
    namespace: dict[str, type] = {}
    exec("class Engine:\n    def step(self): pass\n", namespace)
    engine = namespace["Engine"]()
    engine.scheduler = types.SimpleNamespace(kv_cache_manager=FakeCache())
    assert "cannot be read" in (module.describe(engine)[1] or "")


def test_every_known_build_is_named() -> None:
    assert all(len(found) == 16 and build.startswith("vLLM 0.") for found, build in module.KNOWN.items())


def test_another_way_to_queue_changes_the_queues_fingerprint() -> None:
    plain = module.queue_fingerprint(PriorityScheduler, PriorityRequestQueue, Request)
    assert plain == module.queue_fingerprint(PriorityScheduler, PriorityRequestQueue, Request)

    class OtherIntake(PriorityScheduler):
        def add_request(self, request: Request) -> None:
            super().add_request(request)

    class OtherOrder(Request):
        def __lt__(self, other: Request) -> bool:
            return super().__lt__(other)

    assert plain != module.queue_fingerprint(OtherIntake, PriorityRequestQueue, Request)
    assert plain != module.queue_fingerprint(PriorityScheduler, PriorityRequestQueue, OtherOrder)


def test_a_queue_that_was_not_checked_is_refused_and_a_checked_one_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scheduler = PriorityScheduler()
    found = module.queue_fingerprint(PriorityScheduler, PriorityRequestQueue, Request)
    assert found in (module.describe_queue(scheduler) or "")
    monkeypatch.setitem(module.KNOWN_QUEUES, found, "the tests' own")
    assert module.describe_queue(scheduler) is None
    assert "cannot be read" in (module.describe_queue(FakeScheduler()) or "")
