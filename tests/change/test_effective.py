"""What is in force against what was asked for, setting by setting."""

from __future__ import annotations

import pytest

from change.effective import Difference, differences, unconfirmed
from change.server import Setting


@pytest.mark.parametrize(
    ("name", "requested", "effective"),
    [
        ("block_size", 128, 128.0),
        ("gpu_memory_utilization", 0.9, 0.9000000001),
        ("enable_prefix_caching", True, True),
        ("cudagraph_capture_sizes", "1 2", "1  2"),
        ("kv_cache_dtype", "auto", "bfloat16"),
        ("quantization", "none", "compressed-tensors"),
        ("unheard_of", "a", "a"),
    ],
)
def test_the_same_is_no_difference(name: str, requested: Setting, effective: Setting) -> None:
    assert differences({name: requested}, {name: effective}, "vllm") == []


@pytest.mark.parametrize(
    ("name", "requested", "effective", "sentence"),
    [
        ("block_size", 64, 128, "block_size was asked to be 64 and is 128"),
        ("enable_prefix_caching", False, True, "enable_prefix_caching was asked to be off and is on"),
        ("kv_cache_dtype", "fp8", "auto", "kv_cache_dtype was asked to be fp8 and is auto"),
        ("kv_offloading_size", 4.0, 0.0, "kv_offloading_size was asked to be 4 and is 0"),
        (
            "kv_cache_memory_bytes",
            1 << 30,
            1 << 29,
            "kv_cache_memory_bytes was asked to be 1073741824 and is 536870912",
        ),
        ("enforce_eager", True, 1, "enforce_eager was asked to be on and is 1"),
    ],
)
def test_a_difference_is_said(name: str, requested: Setting, effective: Setting, sentence: str) -> None:
    (found,) = differences({name: requested}, {name: effective, "other": 1}, "vllm")
    assert found == Difference(name, requested, effective)
    assert found.sentence == sentence


def test_what_nobody_told_is_unknown_and_no_difference() -> None:
    assert differences({"block_size": 64}, {}, "vllm") == []
    assert unconfirmed({"block_size": 64, "enforce_eager": True}, {"enforce_eager": False}) == ["block_size"]
