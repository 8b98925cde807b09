"""Runs `npu-smi info` and turns its table into samples."""

from __future__ import annotations

from collections.abc import Sequence

from collectors.command import run_command
from collectors.legacy import legacy_samples
from collectors.npu_smi_table import Chip, Process, Table, TableError, parse_table
from collectors.sample import CollectorError, Labels, Sample, labels


def table_samples(table: Table, now: float) -> list[Sample]:
    """Canonical samples of what could be read, timed `now` (Unix seconds)."""
    samples: list[Sample] = []
    for chip in table.chips:
        samples.extend(_chip_samples(chip, now))
    names = {(chip.npu, chip.chip): chip.name for chip in table.chips}
    samples.extend(_process_samples(table.processes, names, now))
    return samples + legacy_samples(samples)


def _device(npu: str, chip: str, name: str | None, **more: str | None) -> Labels:
    known = {key: value for key, value in {"name": name, **more}.items() if value is not None}
    return labels(npu=npu, chip=chip, **known)


def _chip_samples(chip: Chip, now: float) -> list[Sample]:
    def pairs(**more: str | None) -> Labels:
        return _device(chip.npu, chip.chip, chip.name, **more)

    readings: dict[str, float | None] = {
        "npu_power_watts": chip.power_watts,
        "npu_temperature_celsius": chip.temperature_celsius,
        "npu_aicore_usage_ratio": chip.aicore_usage_ratio,
        "npu_overall_usage_ratio": chip.overall_usage_ratio,
        "npu_hbm_used_bytes": chip.hbm.used if chip.hbm else None,
        "npu_hbm_total_bytes": chip.hbm.total if chip.hbm else None,
        "npu_memory_used_bytes": chip.memory.used if chip.memory else None,
        "npu_memory_total_bytes": chip.memory.total if chip.memory else None,
        "npu_health_ok": float(chip.health == "OK") if chip.health else None,
    }
    samples = [Sample("npu_info", 1.0, now, pairs(bus_id=chip.bus_id, phy_id=chip.phy_id))]
    if chip.health:
        samples.append(Sample("npu_health_state", 1.0, now, pairs(state=chip.health)))
    samples.extend(Sample(name, value, now, pairs()) for name, value in readings.items() if value is not None)
    return samples


def _process_samples(
    processes: Sequence[Process], names: dict[tuple[str, str], str | None], now: float
) -> list[Sample]:
    return [
        Sample(
            "npu_process_memory_bytes",
            process.memory_bytes,
            now,
            _device(
                process.npu,
                process.chip,
                names.get((process.npu, process.chip)),
                pid=process.pid,
                process=process.name,
            ),
        )
        for process in processes
        if process.memory_bytes is not None
    ]


class NpuSmiCollector:
    """Reads the devices of this host through `npu-smi info`.

    `command` is an argument list, never a shell's text. A full query of eight cards takes about 5.4 s: an
    answer later than `timeout_seconds` is an error, and the child and what it started are killed.
    """

    name = "npu_smi"

    def __init__(
        self,
        command: Sequence[str] = ("npu-smi", "info"),
        *,
        interval_seconds: float = 10.0,
        timeout_seconds: float = 12.0,
    ) -> None:
        if not command:
            raise ValueError("the command of npu-smi is empty")
        self.interval_seconds = interval_seconds
        self.notes: tuple[str, ...] = ()
        self._command = tuple(command)
        self._timeout = timeout_seconds

    async def collect(self, now: float) -> list[Sample]:
        """Run the command once; raises CollectorError. `notes` tells what could not be read."""
        self.notes = ()
        output = await run_command(self._command, timeout_seconds=self._timeout)
        failed = f"exit code {output.code}"
        try:
            table = parse_table(output.text)
        except TableError as failure:
            suffix = f" ({failed})" if output.code else ""
            raise CollectorError(f"{self._command[0]}: {failure}{suffix}") from failure
        if not table.chips:
            raise CollectorError(f"{self._command[0]}: no device could be read: {table.notes[0]}")
        self.notes = (*table.notes, failed) if output.code else table.notes
        return table_samples(table, now)
