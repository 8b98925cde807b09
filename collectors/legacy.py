"""The three names that operators of this field already use, made from ours."""

from __future__ import annotations

from collections.abc import Iterable

from collectors.sample import Sample

LEGACY: dict[str, tuple[str, float]] = {
    "npu_hbm_bandwidth_usage_ratio": ("npu_mem_bandwidth", 100.0),
    "npu_aicore_usage_ratio": ("npu_sm_activity", 100.0),
    "trimtab_engine_requests_waiting": ("vllm_pending_queries", 1.0),
}
"""Our name, the name in use, and the factor from ours to it."""


def legacy_samples(samples: Iterable[Sample]) -> list[Sample]:
    """The same readings under the names in use."""
    found: list[Sample] = []
    for sample in samples:
        alias = LEGACY.get(sample.name)
        if alias is not None and isinstance(sample.value, float):
            found.append(Sample(alias[0], sample.value * alias[1], sample.time, sample.labels))
    return found
