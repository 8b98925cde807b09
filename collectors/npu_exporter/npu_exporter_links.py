"""npu-exporter's figures of single links, lanes and ports: most of its page, and they change slowly."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from collectors.metrics import METRICS
from collectors.npu_exporter.names import ROWS
from collectors.npu_exporter.page import NpuExporterPage, Reading, SeenPage
from collectors.page import SharedPage
from collectors.prometheus_text import PageError
from collectors.sample import CollectorError, Sample

SHARES = 6
"""A machine has thousands of such figures: a sixth of the devices is read at a time, so that no pass costs much."""

_PAGE = NpuExporterPage((row for row in ROWS if METRICS[row.canonical].detail), complete=False)


def parse_npu_exporter_links(text: str, now: float) -> Reading:
    """The figures of single links, if there are any; see `NpuExporterPage.read`."""
    return _PAGE.read(text, now)


@dataclass(frozen=True, slots=True)
class _Kept:
    """What was read last of each share of the devices, and whose turn it is."""

    seen: SeenPage
    readings: tuple[Reading, ...]
    turn: int = 0


class NpuExporterLinksCollector:
    """Reads each device once in `interval_seconds`, for the history keeps these figures coarse.

    The first reading, and one after a failure or a change of the page's lines, is of all devices. A device whose turn
    it is not gives what it gave last, with the time of then.
    """

    name = "npu_exporter_links"

    def __init__(self, page: SharedPage, *, interval_seconds: float = 30.0) -> None:
        self.interval_seconds = interval_seconds / SHARES
        self.notes: tuple[str, ...] = ()
        self._page = page
        self._kept: _Kept | None = None

    async def collect(self, now: float) -> list[Sample]:
        """Scrape once; raises CollectorError. `notes` tells what could not be used."""
        self.notes = ()
        kept, self._kept = self._kept, None
        text = await self._page.fetch()
        try:
            self._kept = await asyncio.to_thread(_read, kept, text, now)
            reading = _PAGE.checked(_together(self._kept.readings))
        except PageError as failure:
            self._kept = None
            raise CollectorError(f"{self._page.url}: {failure}") from failure
        self.notes = reading.notes
        return reading.samples


def _read(kept: _Kept | None, text: str, now: float) -> _Kept:
    figures = kept.seen.figures(text, kept.turn) if kept is not None else None
    if kept is None or figures is None:
        seen, shares = _PAGE.look(text, SHARES)
        return _Kept(seen, tuple(seen.reading(share, now, turn) for turn, share in enumerate(shares)))
    readings = list(kept.readings)
    readings[kept.turn] = kept.seen.reading(figures, now, kept.turn)
    return _Kept(kept.seen, tuple(readings), (kept.turn + 1) % SHARES)


def _together(readings: Sequence[Reading]) -> Reading:
    return Reading(
        [sample for reading in readings for sample in reading.samples],
        tuple(dict.fromkeys(note for reading in readings for note in reading.notes)),
        sum(reading.devices for reading in readings),
    )
