"""What watching costs is measured on a node with every source, and the history stays bounded."""

from __future__ import annotations

import dataclasses

import pytest

from bench.node_stand import engine_page, npu_exporter_page, npu_smi_table, watch_round
from bench.overhead import Shape, beside, measure, table, yardstick
from collectors.engines.kinds import read_page
from collectors.npu_smi.table import parse_table
from collectors.npu_smi.watch import parse_watch


@pytest.mark.parametrize(
    ("shape", "sources"),
    [("node", {"npu_smi", "npu_smi_watch", "logs", "derived"}), ("sidecar", {"npu_exporter", "host"})],
)
def test_a_small_node_is_measured_with_every_source(shape: Shape, sources: set[str]) -> None:
    figures = measure(shape, chips=4, count=2, pause_seconds=0.0, days=0.05)
    given = {source.name for source in figures.sources if source.samples}
    assert sources | {"vllm", "engine:engine-1"} <= given
    assert all(source.error is None for source in figures.sources if source.samples)
    assert figures.pass_cpu_ms > 0 and figures.pass_cpu_ms_at_once > 0 and figures.series > 100
    assert "one pass" in table(figures)
    assert {field.name for field in dataclasses.fields(figures)} >= {"rss_hour_mib", "rss_end_mib"}


def test_the_pages_of_the_stand_are_read_whole() -> None:
    chips = parse_table(npu_smi_table(64)).chips
    assert len(chips) == 64 and not parse_table(npu_smi_table(64)).notes
    assert len(parse_watch(watch_round(64)).rows) == 64
    assert engine_page(1).count("\n") > 600 and read_page(engine_page(1), 0.0).samples
    assert npu_exporter_page(2, 1.7e9).count('id="1"') > 50


def test_the_other_exporters_are_named_even_where_they_are_not() -> None:
    work = yardstick(count=2, pause_seconds=0.0)
    assert "not installed here" in beside(None, work)
    assert "4.5 ms" in beside({"cpu_ms": 4.5, "rss_mib": 20.0}, work)
    assert "60.0 ms after such a pause and 12.0 at once (5.0 times)" in beside(None, (60.0, 12.0))
