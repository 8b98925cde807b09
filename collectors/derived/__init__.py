"""Figures derived from what the other sources gave: how the engine and its cards do, with how sure that is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import structlog

from collectors.derived import (
    busy_tokens,
    fragmentation,
    kv_room,
    lagging,
    leak,
    preemptions,
    prefix_hits,
    queue_share,
    skew,
    stall,
    throttling,
    ttft_period,
)
from collectors.derived.cards import Engines
from collectors.history import History
from collectors.sample import CollectorError, Sample

_log = structlog.get_logger("collectors")

Work = Callable[[], list[Sample]]
"""What takes long and works on figures taken from the history before: it is done on a thread."""
Derive = Callable[[History, float], Iterator[Sample] | Iterator[Work]]
"""What a finding is: samples from a history as of a time in Unix seconds; unknown is no sample."""

SLICE_SECONDS = 0.005
"""After this much work the event loop has its turn."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One module of this package, and how often it is worth its work (0: at every reading)."""

    name: str
    derive: Derive
    every_seconds: float = 0.0


def all_findings(engines: Engines = ()) -> tuple[Finding, ...]:
    """Every finding; `engines` says which cards are compared with each other."""
    return (
        Finding("queue_share", queue_share.samples),
        Finding("busy_tokens", busy_tokens.samples),
        Finding("prefix_hits", prefix_hits.samples),
        Finding("kv_room", kv_room.samples),
        Finding("preemptions", preemptions.samples),
        Finding("stall", stall.samples),
        # Their windows are minutes long. All stay well below the 300 s after which the history calls a series stale.
        Finding("lagging", partial(lagging.samples, engines=engines), 30.0),
        Finding("skew", partial(skew.samples, engines=engines), 30.0),
        Finding("throttling", throttling.samples, 30.0),
        Finding("fragmentation", fragmentation.samples, 60.0),
        # Half a day hardly changes in two minutes, and both are the most work.
        Finding("ttft_period", ttft_period.works, 120.0),
        Finding("leak", leak.samples, 120.0),
    )


@dataclass(slots=True)
class _Last:
    time: float | None = None
    samples: list[Sample] = field(default_factory=list)
    defect: str | None = None


class DerivedCollector:
    """Reads the history instead of a device.

    A finding that is not due yet gives what it gave last, with the time of then.
    """

    name = "derived"

    def __init__(
        self,
        history: History,
        *,
        interval_seconds: float = 10.0,
        findings: Sequence[Finding] | None = None,
        engines: Engines = (),
    ) -> None:
        self.interval_seconds = interval_seconds
        self.notes: tuple[str, ...] = ()
        self._history = history
        self._findings = tuple(findings) if findings is not None else all_findings(engines)
        self._last = {finding.name: _Last() for finding in self._findings}

    async def collect(self, now: float) -> list[Sample]:
        """All findings as of `now`; one that is defective is noted and the others stand.

        Raises CollectorError if all are defective.
        """
        for finding in self._findings:
            last = self._last[finding.name]
            if last.time is None or not 0.0 <= now - last.time < finding.every_seconds:
                await self._derive(finding, last, now)
        notes = [last.defect for last in self._last.values() if last.defect is not None]
        if notes and len(notes) == len(self._findings):
            raise CollectorError(f"no figure could be derived: {notes[0]}")
        self.notes = tuple(notes)
        return [sample for last in self._last.values() for sample in last.samples]

    async def _derive(self, finding: Finding, last: _Last, now: float) -> None:
        samples: list[Sample] = []
        began = time.perf_counter()
        defect: str | None = None
        try:
            for found in finding.derive(self._history, now):
                if isinstance(found, Sample):
                    samples.append(found)
                else:
                    samples += await asyncio.to_thread(found)
                if time.perf_counter() - began > SLICE_SECONDS:
                    await asyncio.sleep(0)
                    began = time.perf_counter()
        except Exception as failure:  # a defect in one figure must not blind the others
            samples, defect = [], f"{finding.name}: defect: {type(failure).__name__}: {failure}"
            if last.defect is None:
                _log.exception("defect in a derived figure", finding=finding.name)
        last.time, last.samples, last.defect = now, samples, defect
