"""What npu-smi said, as canonical samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from collectors.legacy import legacy_samples
from collectors.npu_smi.cells import Usage
from collectors.npu_smi.fields import Value
from collectors.npu_smi.keyed import ProcessMemory, Section
from collectors.npu_smi.program import Device
from collectors.npu_smi.table import Chip, Process, Table
from collectors.npu_smi.watch import WatchRow
from collectors.sample import Labels, Sample, labels


def table_samples(table: Table, now: float) -> list[Sample]:
    """Canonical samples of what could be read, timed `now` (Unix seconds)."""
    samples: list[Sample] = []
    for chip in table.chips:
        samples.extend(_chip_samples(chip, now))
    names = {(chip.npu, chip.chip): chip.name for chip in table.chips}
    samples.extend(_process_samples(table.processes, names, now))
    return samples + legacy_samples(samples)


def watch_samples(row: WatchRow, device: Device | None, time: float) -> list[Sample]:
    """Canonical samples of one row of the watch; whose memory it means is known by the device alone."""
    own = device.labels() if device is not None else labels(npu=row.npu, chip=row.chip or "0")
    readings = dict(row.values)
    readings.pop("memory_usage_ratio", None)  # the table has it in bytes
    bandwidth = readings.pop("memory_bandwidth_usage_ratio", None)
    if device is not None and device.watch_shows_hbm is not None:
        readings[f"{'hbm' if device.watch_shows_hbm else 'memory'}_bandwidth_usage_ratio"] = bandwidth
    samples = [
        Sample(f"npu_{name}", value, time, own) for name, value in readings.items() if value is not None
    ]
    return samples + legacy_samples(samples)


_READINGS = (
    "vector_usage_ratio",
    "cube_usage_ratio",
    "overall_usage_ratio",
    "aicpu_usage_ratio",
    "ctrlcpu_usage_ratio",
    "hbm_bandwidth_usage_ratio",
    "memory_bandwidth_usage_ratio",
    "aicore_frequency_hertz",
    "aicore_rated_frequency_hertz",
    "hbm_temperature_celsius",
    "voltage_volts",
)
_TOTALS = {
    "hbm_ecc_single_bit_errors": ("npu_hbm_ecc_errors_total", "bits", "single"),
    "hbm_ecc_double_bit_errors": ("npu_hbm_ecc_errors_total", "bits", "double"),
    "memory_ecc_single_bit_errors": ("npu_memory_ecc_errors_total", "bits", "single"),
    "memory_ecc_double_bit_errors": ("npu_memory_ecc_errors_total", "bits", "double"),
    "hbm_ecc_single_bit_isolated_pages": ("npu_hbm_isolated_pages", "bits", "single"),
    "hbm_ecc_double_bit_isolated_pages": ("npu_hbm_isolated_pages", "bits", "double"),
    "link_tx_errors": ("npu_pcie_errors_total", "kind", "tx"),
    "link_rx_errors": ("npu_pcie_errors_total", "kind", "rx"),
    "pcie_lcrc_errors": ("npu_pcie_errors_total", "kind", "lcrc"),
    "pcie_ecrc_errors": ("npu_pcie_errors_total", "kind", "ecrc"),
    "link_retries": ("npu_pcie_errors_total", "kind", "retry"),
}
_OVER_LINKS = ("tx_bytes", "rx_bytes", "retries", "errors")


def section_samples(section: Section, device: Device, now: float) -> list[Sample]:
    """Canonical samples of a chip's `key : value` lines, but for those that the table and the watch have."""
    samples = list(_section(section.values, device.labels(), now))
    return samples + legacy_samples(samples)


def _section(values: Mapping[str, Value], own: Labels, now: float) -> Iterator[Sample]:
    without_ddr = values.get("memory_total_bytes") == 0.0
    for name in _READINGS:
        value = values.get(name)
        if isinstance(value, float) and not (without_ddr and name == "memory_bandwidth_usage_ratio"):
            yield Sample(f"npu_{name}", value, now, own)
    for name, (metric, label, kind) in _TOTALS.items():
        value = values.get(name)
        if isinstance(value, float):
            yield Sample(metric, value, now, _with(own, label, kind))
    for name in _OVER_LINKS:
        counts = values.get(f"hccs_{name}")
        if isinstance(counts, tuple) and counts:
            total = sum(count for count in counts if isinstance(count, float))
            yield Sample(f"npu_hccs_{name}_total", total, now, own)
    state = values.get("hccs_health")
    if isinstance(state, str) and state.upper() != "UNKNOWN":
        yield Sample("npu_hccs_ok", float(state == "OK"), now, own)
    for name in ("error_codes", "fault_event_codes"):
        codes = values.get(name)
        for code in codes if isinstance(codes, tuple) else ():
            yield Sample("npu_error_active", 1.0, now, _with(own, "code", str(code)))


def unlisted_process_samples(processes: Sequence[ProcessMemory], device: Device, now: float) -> list[Sample]:
    """Memory of the processes that the table has no room for."""
    return [
        Sample(
            "npu_process_memory_bytes",
            one.memory_bytes,
            now,
            _with(_with(device.labels(), "pid", one.pid), "process", one.name or ""),
        )
        for one in processes
        if one.memory_bytes is not None and one.pid not in device.pids
    ]


def _with(own: Labels, name: str, value: str) -> Labels:
    return tuple(sorted((*own, (name, value))))


def _device(npu: str, chip: str, name: str | None, **more: str | None) -> Labels:
    known = {key: value for key, value in {"name": name, **more}.items() if value is not None}
    return labels(npu=npu, chip=chip, **known)


def _usage(what: str, usage: Usage | None) -> dict[str, float | None]:
    # 0 / 0 is how the table says that there is no such memory.
    if usage is None or usage.total == 0.0:
        return {}
    return {f"npu_{what}_used_bytes": usage.used, f"npu_{what}_total_bytes": usage.total}


def _chip_samples(chip: Chip, now: float) -> list[Sample]:
    def pairs(**more: str | None) -> Labels:
        return _device(chip.npu, chip.chip, chip.name, **more)

    readings: dict[str, float | None] = {
        "npu_power_watts": chip.power_watts,
        "npu_temperature_celsius": chip.temperature_celsius,
        "npu_aicore_usage_ratio": chip.aicore_usage_ratio,
        "npu_overall_usage_ratio": chip.overall_usage_ratio,
        **_usage("hbm", chip.hbm),
        **_usage("memory", chip.memory),
        "npu_health_ok": float(chip.health == "OK") if chip.health not in (None, "UNKNOWN") else None,
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
                process=process.name or "",
            ),
        )
        for process in processes
        if process.memory_bytes is not None
    ]
