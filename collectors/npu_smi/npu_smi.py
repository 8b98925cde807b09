"""The table of `npu-smi info` as a source of samples."""

from __future__ import annotations

from collectors.npu_smi.program import NpuSmi
from collectors.npu_smi.samples import table_samples
from collectors.sample import CollectorError, Sample


class NpuSmiCollector:
    """Reads all devices of this host at once; what the watch stream gives meanwhile is left to it."""

    name = "npu_smi"

    def __init__(self, program: NpuSmi, *, interval_seconds: float = 10.0) -> None:
        self.interval_seconds = interval_seconds
        self.notes: tuple[str, ...] = ()
        self._program = program

    async def collect(self, now: float) -> list[Sample]:
        """Run `info` once, timed when its turn comes; raises CollectorError. `notes` tells what could not be read."""
        self.notes = ()
        # Also when the watch ends meanwhile: its last rows may be newer than this reading.
        left_out = self._program.watched
        answer = await self._program.table()
        table, code = answer.said, answer.code
        if not table.chips:
            raise CollectorError(f"{self._program.name}: no device could be read: {table.notes[0]}")
        self.notes = (*table.notes, f"exit code {code}") if code else table.notes
        samples = self._program.not_watched(table_samples(table, now + answer.waited))
        return [sample for sample in samples if (sample.name, sample.labels) not in left_out]
