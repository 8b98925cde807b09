"""The existing npu-exporter's page: the only NPU source of a sidecar, which must not open the devices."""

from __future__ import annotations

import asyncio
from pathlib import Path

from collectors.metrics import METRICS
from collectors.npu_exporter.names import ROWS
from collectors.npu_exporter.page import NpuExporterPage, Reading
from collectors.page import PageSource
from collectors.prometheus_text import PageError
from collectors.sample import CollectorError, Sample

_PAGE = NpuExporterPage((row for row in ROWS if not METRICS[row.canonical].detail), complete=True)


def parse_npu_exporter(text: str, now: float) -> Reading:
    """The page but for the figures of single links; see `NpuExporterPage.read`."""
    return _PAGE.read(text, now)


class NpuExporterCollector:
    """Scrapes npu-exporter at `url`, the whole address of its page; TLS and limits as in `PageSource`."""

    name = "npu_exporter"
    page = _PAGE

    def __init__(
        self,
        url: str,
        *,
        ca_file: Path | None = None,
        verify: bool = True,
        interval_seconds: float = 5.0,
        timeout_seconds: float = 4.0,
        max_bytes: int = 16 * 1024 * 1024,
    ) -> None:
        self.interval_seconds = interval_seconds
        self.notes: tuple[str, ...] = ()
        self._source = PageSource(
            url, ca_file=ca_file, verify=verify, timeout_seconds=timeout_seconds, max_bytes=max_bytes
        )

    async def collect(self, now: float) -> list[Sample]:
        """Scrape once; raises CollectorError. `notes` tells what could not be used."""
        self.notes = ()
        text = await self._source.fetch()
        try:
            reading = await asyncio.to_thread(self.page.read, text, now)
        except PageError as failure:
            raise CollectorError(f"{self._source.url}: {failure}") from failure
        self.notes = reading.notes
        return reading.samples
