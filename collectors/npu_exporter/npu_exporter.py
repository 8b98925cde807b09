"""The existing npu-exporter's page: the only NPU source of a sidecar, which must not open the devices."""

from __future__ import annotations

import asyncio

from collectors.metrics import METRICS
from collectors.npu_exporter.names import ROWS
from collectors.npu_exporter.page import NpuExporterPage, Reading, SeenPage
from collectors.page import SharedPage
from collectors.prometheus_text import PageError
from collectors.sample import CollectorError, Sample

_PAGE = NpuExporterPage((row for row in ROWS if not METRICS[row.canonical].detail), complete=True)


def parse_npu_exporter(text: str, now: float) -> Reading:
    """The page but for the figures of single links; see `NpuExporterPage.read`."""
    return _PAGE.read(text, now)


class NpuExporterCollector:
    """Scrapes npu-exporter, and remembers what stands where on its page."""

    name = "npu_exporter"

    def __init__(self, page: SharedPage, *, interval_seconds: float = 5.0) -> None:
        self.interval_seconds = interval_seconds
        self.notes: tuple[str, ...] = ()
        self._page = page
        self._seen: SeenPage | None = None

    async def collect(self, now: float) -> list[Sample]:
        """Scrape once; raises CollectorError. `notes` tells what could not be used."""
        self.notes = ()
        text = await self._page.fetch()
        try:
            self._seen, reading = await asyncio.to_thread(_read, self._seen, text, now)
        except PageError as failure:
            raise CollectorError(f"{self._page.url}: {failure}") from failure
        self.notes = reading.notes
        return reading.samples


def _read(seen: SeenPage | None, text: str, now: float) -> tuple[SeenPage, Reading]:
    figures = seen.figures(text) if seen is not None else None
    if seen is None or figures is None:
        seen, [figures] = _PAGE.look(text)
    return seen, _PAGE.checked(seen.reading(figures, now))
