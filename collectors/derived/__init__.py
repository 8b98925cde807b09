"""Figures derived from what the other sources gave: how the engine and its cards do, with how sure that is."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import structlog

from collectors.derived import (
    busier,
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
Derive = Callable[[History, float], Iterator[Sample | Work]]
"""What a finding is: samples from a history as of a time in Unix seconds; unknown is no sample."""

SLICE_SECONDS = 0.005
"""After this much CPU the event loop has its turn."""
READING_SECONDS = 0.005
"""After this much CPU for findings that are seldom due, the rest waits for the next reading."""


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
        Finding("busier", partial(busier.samples, engines=engines), 30.0),
        Finding("throttling", throttling.samples, 30.0),
        Finding("fragmentation", fragmentation.samples, 60.0),
        # Half a day hardly changes in four minutes, and both are the most work.
        Finding("ttft_period", ttft_period.works, 120.0),
        Finding("leak", leak.samples, 240.0),
    )


@dataclass(slots=True)
class _State:
    """What a finding gave last, and how far it is with what it gives next."""

    time: float | None = None
    samples: list[Sample] = field(default_factory=list)
    defect: str | None = None
    under_way: Iterator[Sample | Work] | None = None
    found: list[Sample] = field(default_factory=list)


class DerivedCollector:
    """Reads the history instead of a device.

    A finding that is not due yet, or not yet done, gives what it gave last, with the time of then. Those that are due
    at every reading are done in it; of the others only so much as takes `reading_seconds`, the first time all.
    """

    name = "derived"

    def __init__(
        self,
        history: History,
        *,
        interval_seconds: float = 10.0,
        findings: Sequence[Finding] | None = None,
        engines: Engines = (),
        reading_seconds: float = READING_SECONDS,
    ) -> None:
        self.interval_seconds = interval_seconds
        self.notes: tuple[str, ...] = ()
        self._history = history
        self._findings = tuple(findings) if findings is not None else all_findings(engines)
        self._quick = [finding for finding in self._findings if finding.every_seconds <= 0.0]
        self._slow = deque(finding for finding in self._findings if finding.every_seconds > 0.0)
        self._reading_seconds = reading_seconds
        self._states = {finding.name: _State() for finding in self._findings}

    async def collect(self, now: float) -> list[Sample]:
        """All findings as of `now`; one that is defective is noted and the others stand.

        Raises CollectorError if all are defective.
        """
        for finding in self._quick:
            await self._go_on(finding, now, math.inf)
        left = self._reading_seconds
        for _ in range(len(self._slow)):
            if left <= 0.0:
                break
            finding = self._slow[0]
            self._slow.rotate(-1)  # who had its turn goes to the end: none waits for ever
            first = self._states[finding.name].time is None
            took = await self._go_on(finding, now, math.inf if first else left)
            left -= 0.0 if first else took
        notes = [state.defect for state in self._states.values() if state.defect is not None]
        if notes and len(notes) == len(self._findings):
            raise CollectorError(f"no figure could be derived: {notes[0]}")
        self.notes = tuple(notes)
        return [sample for state in self._states.values() for sample in state.samples]

    async def _go_on(self, finding: Finding, now: float, seconds: float) -> float:
        """Work on a finding that is due for so many seconds of CPU or until it is done; returns what it took."""
        state = self._states[finding.name]
        if state.under_way is None:
            if state.time is not None and 0.0 <= now - state.time < finding.every_seconds:
                return 0.0
            state.time, state.under_way, state.found = now, finding.derive(self._history, now), []
        spent = slice_spent = 0.0
        try:
            while spent < seconds:
                began = time.thread_time()
                found = next(state.under_way, None)
                took = time.thread_time() - began
                spent += took
                slice_spent += took
                if found is None:
                    state.under_way, state.samples, state.defect = None, state.found, None
                    break
                if isinstance(found, Sample):
                    state.found.append(found)
                else:
                    samples, took_there = await asyncio.to_thread(_timed, found)
                    state.found += samples
                    spent += took_there
                if slice_spent > SLICE_SECONDS:
                    await asyncio.sleep(0)
                    slice_spent = 0.0
        except Exception as failure:  # a defect in one figure must not blind the others
            if state.defect is None:
                _log.exception("defect in a derived figure", finding=finding.name)
            state.under_way, state.samples = None, []
            state.defect = f"{finding.name}: defect: {type(failure).__name__}: {failure}"
        return spent


def _timed(work: Work) -> tuple[list[Sample], float]:
    """What a work gives, and the CPU seconds of its thread."""
    began = time.thread_time()
    return work(), time.thread_time() - began
