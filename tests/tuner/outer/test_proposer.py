"""Which start-up settings are proposed: what the operator allows, and nothing that is known not to work."""

from __future__ import annotations

from change.server import Setting
from tuner.outer.memory import Start, StartMemory, changed
from tuner.outer.proposer import ColdProposer
from tuner.outer.settings import OuterSettings

LAUNCH: dict[str, Setting] = {
    "block_size": 128,
    "tensor_parallel_size": 4,
    "pipeline_parallel_size": 1,
    "batch_max_tokens": 2048,
    "max_num_seqs": 256,
    "gpu_memory_utilization": 0.9,
}
SHAPED = OuterSettings(4, allow=("pipeline_parallel_size",))


def proposer(
    allowed: OuterSettings = SHAPED, starts: list[Start] | None = None, **more: Setting
) -> ColdProposer:
    return ColdProposer({**LAUNCH, **more}, allowed, StartMemory(starts or []))


def test_the_guides_prior_comes_first_with_room_for_the_hot_values_and_all_cards_used() -> None:
    found = proposer().propose(None)
    assert found is not None and found.source == "prior"
    assert found.settings == {
        **LAUNCH,
        "block_size": 64,
        "pipeline_parallel_size": 4,
        "tensor_parallel_size": 1,
        "batch_max_tokens": 8192,
    }


def test_parallel_sizes_stay_unless_they_are_named() -> None:
    asked = proposer(OuterSettings(4))
    found = asked.propose(None)
    assert found is not None and changed(found.settings, LAUNCH) == {
        "block_size": 64,
        "batch_max_tokens": 8192,
    }
    assert any("pipeline_parallel_size 4" in text and "tune.cold.allow" in text for text in asked.skipped)
    seen = [p.settings for _ in range(40) if (p := asked.propose(None)) is not None]
    assert all(s["pipeline_parallel_size"] == 1 and s["tensor_parallel_size"] == 4 for s in seen)


def test_the_next_one_is_a_step_from_the_best_and_none_comes_twice() -> None:
    asked = proposer()
    first = asked.propose(None)
    assert first is not None
    second = asked.propose(first.settings)
    assert second is not None and second.settings["block_size"] == 32
    assert second.settings["pipeline_parallel_size"] == 4
    seen = [tuple(sorted(p.settings.items())) for _ in range(60) if (p := asked.propose(None)) is not None]
    assert len(seen) == len(set(seen))


def test_a_knob_that_is_ignored_here_is_left_alone() -> None:
    ignored = Start({**LAUNCH, "block_size": 64}, LAUNCH, "served")
    asked = proposer(starts=[ignored])
    seen = [p.settings for _ in range(40) if (p := asked.propose(None)) is not None]
    assert seen and all(s["block_size"] == 128 for s in seen)


def test_without_room_for_generous_ceilings_the_launch_ceilings_are_kept() -> None:
    roomy = {**LAUNCH, "block_size": 256, "batch_max_tokens": 8192}
    asked = proposer(OuterSettings(4), [Start(roomy, {}, "failed", "NPU out of memory")])
    found = asked.propose(None)
    assert found is not None and found.settings["batch_max_tokens"] == 2048


def test_a_flag_that_is_gone_is_asked_about_before_anything_else_and_only_once() -> None:
    asked = proposer(OuterSettings(4, allow=("swap_space",)))
    asked.propose(None)
    second = asked.propose(None)
    assert second is not None and "swap_space" in second.settings
    asked.refuse(second.settings)
    seen = [p.settings for _ in range(40) if (p := asked.propose(None)) is not None]
    assert all("swap_space" not in s for s in seen)


def test_what_changes_answers_needs_a_gate_beside_the_word() -> None:
    allowed = {"allow": ("kv_cache_dtype",), "values": (("kv_cache_dtype", ("auto", "int8")),)}
    for gated in (False, True):
        asked = proposer(OuterSettings(4, gated=gated, **allowed), kv_cache_dtype="auto")  # type: ignore[arg-type]
        seen = [p.settings["kv_cache_dtype"] for _ in range(40) if (p := asked.propose(None)) is not None]
        assert ("int8" in seen) == gated
