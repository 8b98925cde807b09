"""npu-exporter's figures of single links, lanes and ports: most of its page, and they change slowly."""

from __future__ import annotations

from collectors.metrics import METRICS
from collectors.npu_exporter.names import ROWS
from collectors.npu_exporter.npu_exporter import NpuExporterCollector
from collectors.npu_exporter.page import NpuExporterPage, Reading

_PAGE = NpuExporterPage((row for row in ROWS if METRICS[row.canonical].detail), complete=False)


def parse_npu_exporter_links(text: str, now: float) -> Reading:
    """The figures of single links, if there are any; see `NpuExporterPage.read`."""
    return _PAGE.read(text, now)


class NpuExporterLinksCollector(NpuExporterCollector):
    """Scrapes the same page seldom, for the history keeps these figures coarse."""

    name = "npu_exporter_links"
    page = _PAGE
