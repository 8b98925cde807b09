"""The table of canonical names is sound, and docs/metrics.md is made from it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from collectors.legacy import LEGACY
from collectors.metrics import METRICS, Metric
from collectors.metrics.links import LINK_ROWS
from tests.prepare import ROOT

PAGE = ROOT / "docs" / "metrics.md"
INTRODUCTION = """\
# Metrics

Everything Trimtab knows by name, in one table (`collectors/metrics/`). The history, the rules and the `/metrics`
page of the daemon use these names and no others. Units are base units, shares are 0 to 1 (`_ratio`), counters end in
`_total`. What is not known is absent: no metric is zero because its source failed.

*Combined* says what a reader gets who asks for no particular device or engine rank: the sum, the mean, the highest
or the lowest of the series. Histograms and counters are added up.

This page is made from the table: `WRITE_GOLDEN=1 pytest tests/collectors/test_metrics.py` writes it anew.
"""
SECTIONS = {
    "Devices": "`npu` is the number npu-smi shows (npu-exporter's `id`), `chip` the chip on it, `name` the model.",
    "The links of a device": (
        "`direction` is `rx` or `tx`; `die` and `port` tell the ports of a device that has several. The figures of\n"
        "single links, lanes and ports are many: the history keeps one reading in 30 s of them, for an hour."
    ),
    "The engine": "Read of the engine's own `/metrics`; `engine` is the data-parallel rank, `server` an engine watched "
    "beside the tuned one: who asks for no `server` gets the tuned one alone.",
    "The host": "Of the machine the daemon runs on.",
    "Logs": "Counted in the logs that are followed: see [logs.md](logs.md).",
    "Trimtab itself": "A source's age, success and notes are how a dead or half-readable source is seen.",
    "Names already in use": "The same readings under the names that operators of this field already use.",
}


def section(metric: Metric) -> str:
    if metric.name in {alias for alias, _ in LEGACY.values()}:
        return "Names already in use"
    if metric in LINK_ROWS:
        return "The links of a device"
    for prefix, title in (
        ("npu_out_of_memory_", "Logs"),
        ("trimtab_log_", "Logs"),
        ("npu_", "Devices"),
        ("trimtab_engine_", "The engine"),
        ("trimtab_host_", "The host"),
    ):
        if metric.name.startswith(prefix):
            return title
    return "Trimtab itself"


def written() -> Iterator[str]:
    yield INTRODUCTION
    for title, text in SECTIONS.items():
        yield f"## {title}\n\n{text}\n"
        yield "| name | kind | unit | labels | combined | what it is |"
        yield "|---|---|---|---|---|---|"
        for metric in METRICS.values():
            if section(metric) == title:
                names = ", ".join(f"`{label}`" for label in metric.labels)
                combined = metric.combine if metric.kind == "gauge" else "sum"
                yield (
                    f"| `{metric.name}` | {metric.kind} | {metric.unit} | {names} | {combined} | {metric.help} |"
                )
        yield ""


def test_the_page_is_made_from_the_table() -> None:
    text = "\n".join(written())
    if os.environ.get("WRITE_GOLDEN"):
        PAGE.write_text(text)
    assert PAGE.read_text() == text, "run it with WRITE_GOLDEN=1 to write the page anew"


@pytest.mark.parametrize("metric", METRICS.values(), ids=lambda metric: metric.name)
def test_a_name_keeps_the_conventions(metric: Metric) -> None:
    assert metric.help.endswith(".")
    assert metric.help[0].isupper() or metric.help[0].isdigit()
    assert len(set(metric.labels)) == len(metric.labels)
    assert metric.name.replace("_", "").isalnum() and metric.name == metric.name.lower()
    if section(metric) == "Names already in use":
        return
    stem = metric.name.removesuffix("_total")
    for unit in ("bytes", "seconds", "ratio", "celsius", "watts", "volts", "hertz", "tokens"):
        if metric.unit == unit:
            assert unit in stem, f"{metric.name} is in {unit}"
        elif unit != "tokens":
            assert not stem.endswith(f"_{unit}"), f"{metric.name} is in {metric.unit}"


def test_the_names_in_use_stand_for_ours() -> None:
    assert {alias for alias, _ in LEGACY.values()} == {
        "npu_mem_bandwidth",
        "npu_sm_activity",
        "vllm_pending_queries",
    }
    for ours, (alias, _) in LEGACY.items():
        assert METRICS[alias].labels == METRICS[ours].labels
        assert ours in METRICS[alias].help


def test_only_counters_end_in_total() -> None:
    with pytest.raises(ValueError, match="counters, and only they, end in _total"):
        Metric("things_total", "Things.", "things")
    with pytest.raises(ValueError, match="got kind counter"):
        Metric("things", "Things.", "things", "counter")
