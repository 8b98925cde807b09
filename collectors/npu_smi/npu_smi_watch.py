"""The stream of `npu-smi info watch` as a fast source of samples."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from collectors.npu_smi import errors
from collectors.npu_smi.program import NpuSmi
from collectors.npu_smi.samples import watch_samples
from collectors.npu_smi.stream import WatchStream
from collectors.sample import CollectorError, Sample

METRICS = "ptaicmbnu"
"""What is asked for: power, temperature, AI core, AI CPU, control CPU, memory, its bandwidth, NPU, AI cube."""
LONGEST_PAUSE_SECONDS = 60.0
HEALTHY_SECONDS = 60.0


class NpuSmiWatchCollector:
    """Keeps one child that prints all chips every second, and tells their last rows.

    A child that ends is started again, later each time; one that is silent for `silent_seconds` is killed first.
    Where this npu-smi has no such stream that is a note, and the table alone is read. Rows are timed by `clock` (Unix
    seconds) as they come.
    """

    name = "npu_smi_watch"

    def __init__(
        self,
        program: NpuSmi,
        *,
        interval_seconds: float = 1.0,
        silent_seconds: float = 15.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.interval_seconds = interval_seconds
        self.notes: tuple[str, ...] = ()
        self._program = program
        self._silent = silent_seconds
        self._clock = clock
        self._stream: WatchStream | None = None
        self._started = 0.0
        self._failures = 0
        self._next_start = 0.0
        self._reason = ""
        self._without: str | None = None

    async def collect(self, now: float) -> list[Sample]:
        """The last rows; raises CollectorError while there are none."""
        self.notes = ()
        if self._without is not None:
            self.notes = (self._without,)
            return []
        await self._program.learn()
        try:
            return await self._read(now)
        except CollectorError:
            self._program.watched = frozenset()
            raise

    async def _read(self, now: float) -> list[Sample]:
        stream = await self._running(now)
        if not stream.rows:
            try:
                async with asyncio.timeout(self._silent):
                    await stream.moved.wait()
            except TimeoutError:
                await self._silenced(stream, now)
        if stream.ended:
            return self._ended(stream, now)
        now = max(now, self._clock())
        fresh = [(row, at) for row, at in stream.rows.values() if now - at <= self._silent]
        if not fresh:
            await self._silenced(stream, now)
        self.notes = stream.notes
        samples: list[Sample] = []
        for row, at in fresh:
            samples.extend(watch_samples(row, self._program.device(row.npu, row.chip), at))
        self._program.watched = frozenset((sample.name, sample.labels) for sample in samples)
        if now - self._started >= HEALTHY_SECONDS:
            self._failures = 0
        return samples

    async def _running(self, now: float) -> WatchStream:
        if self._stream is not None:
            return self._stream
        if now < self._next_start:
            raise CollectorError(self._reason)
        stream = WatchStream((*self._program.command, "info", "watch", "-s", METRICS), self._clock)
        try:
            await stream.start()
        except CollectorError as failure:
            raise self._failed(str(failure), now) from failure
        self._stream, self._started = stream, now
        return stream

    def _ended(self, stream: WatchStream, now: float) -> list[Sample]:
        self._stream = None
        code = stream.code or 0
        if not stream.rows and errors.has_no_such_query(stream.said):
            told = errors.of_output(stream.said).reason
            self._without = f"{self._program.name} has no `info watch`, the table alone is read: {told}"
            self.notes = (self._without,)
            return []
        known = bool(stream.said.strip()) or errors.of_exit(code) is not None
        why = str(errors.of_output(stream.said, code)) if known else "it did not say why"
        raise self._failed(f"{self._program.name} info watch ended (exit code {code}): {why}", now)

    async def _silenced(self, stream: WatchStream, now: float) -> None:
        await stream.stop()
        self._stream = None
        raise self._failed(f"{self._program.name} info watch: no row for {self._silent:g} s; see dmesg", now)

    def _failed(self, reason: str, now: float) -> CollectorError:
        self._failures += 1
        self._reason = reason
        self._next_start = now + min(2.0 ** min(self._failures, 16), LONGEST_PAUSE_SECONDS)
        return CollectorError(reason)
