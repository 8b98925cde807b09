"""Reads the sources: time-out, no overlap, back-off, success and duration, and one line of log per change."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import structlog

from collectors.history import History
from collectors.sample import Collector, CollectorError, Sample, SourceHealth, labels

_log = structlog.get_logger("collectors")

BACK_OFF_INTERVALS = 10
"""A failing source is read at most this many times less often than a good one."""
BACK_OFF_SECONDS = 60.0


@runtime_checkable
class Noted(Protocol):
    """A collector that can say which parts of its last good reading it could not use."""

    @property
    def notes(self) -> Sequence[str]:
        """One text per row or cell that could not be read."""
        ...


@dataclass(slots=True)
class _Source:
    collector: Collector
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    failures: int = 0
    health: SourceHealth | None = None
    noted: bool = False

    def pause_seconds(self) -> float:
        """How long to wait before the next reading: twice as long after each failure in a row."""
        interval = self.collector.interval_seconds
        longest = max(interval, min(interval * BACK_OFF_INTERVALS, BACK_OFF_SECONDS))
        return min(interval * 2.0 ** min(self.failures, 16), longest)


class Runner:
    """Reads every collector at its interval into a history.

    `timeouts` gives seconds by collector name where `timeout_seconds` does not suit. `clock` gives Unix time.
    """

    def __init__(
        self,
        collectors: Sequence[Collector],
        history: History,
        *,
        timeout_seconds: float = 15.0,
        timeouts: Mapping[str, float] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._sources = {collector.name: _Source(collector) for collector in collectors}
        if len(self._sources) != len(collectors):
            names = sorted(collector.name for collector in collectors)
            raise ValueError(f"two collectors have the same name: {', '.join(names)}")
        unknown = set(timeouts or {}) - set(self._sources)
        if unknown:
            raise ValueError(f"time-out for an unknown collector: {', '.join(sorted(unknown))}")
        self._history = history
        self._timeout = timeout_seconds
        self._timeouts = dict(timeouts or {})
        self._clock = clock

    @property
    def names(self) -> list[str]:
        return list(self._sources)

    @property
    def intervals(self) -> dict[str, float]:
        """Seconds between two readings, by source."""
        return {name: source.collector.interval_seconds for name, source in self._sources.items()}

    async def run(self, stop: asyncio.Event) -> None:
        """Read every source at its interval until `stop` is set."""
        async with asyncio.TaskGroup() as group:
            for source in self._sources.values():
                group.create_task(self._repeat(source, stop))

    async def once(self, now: float, name: str | None = None) -> list[Sample]:
        """Read all sources (or the one named) once, as of `now`, and return what they gave.

        Raises ValueError for an unknown name. A source that fails gives no samples; see `health`.
        """
        if name is not None and name not in self._sources:
            raise ValueError(f"no source {name!r}; there are {', '.join(self._sources) or 'none'}")
        chosen = [self._sources[name]] if name is not None else list(self._sources.values())
        found = await asyncio.gather(*(self._read(source, now) for source in chosen))
        return [sample for samples in found for sample in samples]

    def health(self) -> list[SourceHealth]:
        """How each source did last; a source that was never read is not in the list."""
        return [source.health for source in self._sources.values() if source.health is not None]

    async def _repeat(self, source: _Source, stop: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while not stop.is_set():
            await self._read(source, self._clock())
            # Kept to a grid, so that the interval does not grow by the duration of the reading.
            due = max(due + source.pause_seconds(), loop.time())
            try:
                await asyncio.wait_for(stop.wait(), due - loop.time())
            except TimeoutError:
                continue

    async def _read(self, source: _Source, now: float) -> list[Sample]:
        async with source.lock:
            return await self._read_locked(source, now)

    async def _read_locked(self, source: _Source, now: float) -> list[Sample]:
        name = source.collector.name
        limit = self._timeouts.get(name, self._timeout)
        began = time.perf_counter()
        samples: list[Sample] = []
        error: str | None = None
        try:
            async with asyncio.timeout(limit):
                samples = await source.collector.collect(now)
            self._history.add(samples, name)
        except CollectorError as failure:
            error = str(failure)
        except TimeoutError:
            error = f"no answer within {limit:g} s"
        except Exception as failure:  # a defect in one source must not blind the others
            error = f"defect in the collector: {type(failure).__name__}: {failure}"
            if source.failures == 0:
                _log.exception("collector defect", source=name)
        took = time.perf_counter() - began
        notes = tuple(source.collector.notes) if isinstance(source.collector, Noted) else ()
        if error is not None:
            samples, notes = [], ()
            self._history.end(name)
        self._tell(source, error, notes)
        before = source.health.last_success if source.health is not None else None
        source.health = SourceHealth(
            name=name,
            success=error is None,
            duration_seconds=took,
            last_success=now if error is None else before,
            error=error,
            detail={f"note {number}": note for number, note in enumerate(notes, 1)},
        )
        self._record(name, now, error is None, took, len(notes))
        return samples

    def _tell(self, source: _Source, error: str | None, notes: Sequence[str]) -> None:
        """Log the first failure and the recovery, not every tick."""
        name = source.collector.name
        if error is not None:
            if source.failures == 0:
                _log.warning("source failed", source=name, reason=error)
            source.failures += 1
            return
        if source.failures:
            _log.info("source recovered", source=name, failed_readings=source.failures)
        source.failures = 0
        if notes and not source.noted:
            _log.warning("source partly unreadable", source=name, notes=list(notes))
        elif source.noted and not notes:
            _log.info("source fully readable again", source=name)
        source.noted = bool(notes)

    def _record(self, name: str, now: float, success: bool, took: float, notes: int) -> None:
        own = labels(collector=name)
        self._history.add(
            [
                Sample("trimtab_collector_success", float(success), now, own),
                Sample("trimtab_collector_duration_seconds", took, now, own),
                Sample("trimtab_collector_notes", float(notes), now, own),
            ]
        )
