"""The existing npu-exporter's page: the only NPU source of a sidecar, which must not open the devices."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from collectors.legacy import legacy_samples
from collectors.npu_smi.cells import MEBIBYTE
from collectors.page import PageSource
from collectors.prometheus_text import PageError, PageParser, Point, Shape
from collectors.sample import CollectorError, Labels, Sample, labels

MAX_AGE_SECONDS = 300.0
"""The exporter serves from a cache and stamps each reading: an older one is a device it no longer reaches."""


def _scaled(factor: float, highest: float = float("inf")) -> Callable[[float], float | None]:
    """Multiply; a negative value, or one above `highest` (of the exporter's unit), is a failed reading."""

    def convert(value: float) -> float | None:
        return value * factor if 0.0 <= value <= highest else None

    return convert


def _flag(value: float) -> float | None:
    """1 good, 0 bad; -1 is unknown, and so is anything else."""
    return value if value in (0.0, 1.0) else None


@dataclass(frozen=True, slots=True)
class Row:
    """A canonical name, the exporter's name, how its value converts, labels to add."""

    canonical: str
    theirs: str
    convert: Callable[[float], float | None]
    more: Labels = ()


_PERCENT = _scaled(0.01, 100.0)
_AS_IS = _scaled(1.0, 1e6)
_COUNT = _scaled(1.0, 4e9)

ROWS = (
    Row("npu_health_ok", "npu_chip_info_health_status", _flag),
    Row("npu_network_ok", "npu_chip_info_network_status", _flag),
    Row("npu_link_up", "npu_chip_info_link_status", _flag),
    Row("npu_aicore_usage_ratio", "npu_chip_info_utilization", _PERCENT),
    Row("npu_vector_usage_ratio", "npu_chip_info_vector_utilization", _PERCENT),
    Row("npu_cube_usage_ratio", "npu_chip_info_cube_utilization", _PERCENT),
    Row("npu_overall_usage_ratio", "npu_chip_info_overall_utilization", _PERCENT),
    Row("npu_aicore_frequency_hertz", "npu_chip_info_aicore_current_freq", _scaled(1e6, 1e5)),
    Row("npu_hbm_used_bytes", "npu_chip_info_hbm_used_memory", _scaled(MEBIBYTE, 1e7)),
    Row("npu_hbm_total_bytes", "npu_chip_info_hbm_total_memory", _scaled(MEBIBYTE, 1e7)),
    Row("npu_hbm_bandwidth_usage_ratio", "npu_chip_info_hbm_bandwidth_utilization", _PERCENT),
    Row("npu_hbm_temperature_celsius", "npu_chip_info_hbm_temperature", _AS_IS),
    Row(
        "npu_hbm_ecc_errors_total",
        "npu_chip_info_hbm_ecc_single_bit_error_cnt",
        _COUNT,
        labels(bits="single"),
    ),
    Row(
        "npu_hbm_ecc_errors_total",
        "npu_chip_info_hbm_ecc_double_bit_error_cnt",
        _COUNT,
        labels(bits="double"),
    ),
    Row("npu_memory_used_bytes", "npu_chip_info_used_memory", _scaled(MEBIBYTE, 1e7)),
    Row("npu_memory_total_bytes", "npu_chip_info_total_memory", _scaled(MEBIBYTE, 1e7)),
    Row("npu_temperature_celsius", "npu_chip_info_temperature", _AS_IS),
    Row("npu_power_watts", "npu_chip_info_power", _AS_IS),
    Row("npu_voltage_volts", "npu_chip_info_voltage", _AS_IS),
)

ERROR_CODE = "npu_chip_info_error_code"
PROCESS = "npu_chip_info_process_info"
TOTALS = {
    "npu_hbm_total_bytes": "npu_hbm_used_bytes",
    "npu_memory_total_bytes": "npu_memory_used_bytes",
}
"""A total of zero says that the device has no such memory: neither figure is a reading then."""

_WANTED: dict[str, Shape] = {row.theirs: "scalar" for row in ROWS}
_WANTED.update({ERROR_CODE: "scalar", PROCESS: "scalar"})
_WANTED.update({f"{ERROR_CODE}_{number}": "scalar" for number in range(1, 10)})
_PARSER = PageParser(_WANTED)


@dataclass(frozen=True, slots=True)
class Reading:
    """Samples of a page, and notes on what on it could not be used."""

    samples: list[Sample]
    notes: tuple[str, ...]


def parse_npu_exporter(text: str, now: float) -> Reading:
    """Canonical samples of a whole page; a reading has the time the exporter stamped on it, else `now`.

    The exporter counts chips, not cards: `npu` is its `id` and `chip` is always 0. Raises PageError if the
    page is cut off, malformed where it matters, or holds no device.
    """
    by_family: dict[str, list[Point]] = {}
    for point in _PARSER.parse(text):
        by_family.setdefault(point.family, []).append(point)
    read: dict[tuple[str, Labels], Sample] = {}
    notes: dict[str, None] = {}
    devices: dict[Labels, str] = {}
    for row in ROWS:
        for point in by_family.get(row.theirs, []):
            found = _device(point)
            time = _time(point, now)
            value = row.convert(float(point.value)) if isinstance(point.value, float) else None
            if found is None:
                notes[f"{row.theirs} without an id"] = None
                continue
            if time is None:
                notes[f"NPU {dict(found)['npu']} was last read more than {MAX_AGE_SECONDS:g} s ago"] = None
                continue
            devices.setdefault(found, dict(point.labels).get("pcie_bus_info", ""))
            key = (row.canonical, tuple(sorted(found + row.more)))
            if key in read:
                notes[f"{row.theirs} of NPU {dict(found)['npu']} stands twice on the page"] = None
            elif value is not None:
                read[key] = Sample(row.canonical, value, time, key[1])
    samples = list(read.values())
    samples.extend(_error_codes(by_family, now))
    samples.extend(_processes(by_family.get(PROCESS, []), now))
    samples.extend(
        Sample("npu_info", 1.0, now, tuple(sorted((*found, ("bus_id", bus))) if bus else found))
        for found, bus in devices.items()
    )
    samples = _without_absent_memory(samples)
    if not devices:
        raise PageError(next(iter(notes)) if notes else "the page has no device of npu-exporter's")
    return Reading(samples + legacy_samples(samples), tuple(notes))


def _device(point: Point) -> Labels | None:
    pairs = dict(point.labels)
    if not pairs.get("id"):
        return None
    name = {"name": pairs["model_name"]} if pairs.get("model_name") else {}
    return labels(npu=pairs["id"], chip="0", **name)


def _time(point: Point, now: float) -> float | None:
    """When the device was read; None if that is too long ago."""
    if point.time is None:
        return now
    return min(point.time, now) if now - point.time <= MAX_AGE_SECONDS else None


def _error_codes(by_family: dict[str, list[Point]], now: float) -> list[Sample]:
    """The codes now reported; absent when healthy, 0 is no code."""
    found: dict[Labels, Sample] = {}
    for name in (ERROR_CODE, *(f"{ERROR_CODE}_{number}" for number in range(1, 10))):
        for point in by_family.get(name, []):
            device, time = _device(point), _time(point, now)
            if device is None or time is None or not isinstance(point.value, float) or point.value <= 0:
                continue
            pairs = tuple(sorted((*device, ("code", f"{int(point.value):X}"))))
            found[pairs] = Sample("npu_error_active", 1.0, time, pairs)
    return list(found.values())


def _processes(points: list[Point], now: float) -> list[Sample]:
    samples: list[Sample] = []
    for point in points:
        device, time, pid = _device(point), _time(point, now), dict(point.labels).get("process_id")
        if device is None or time is None or not pid or not isinstance(point.value, float) or point.value < 0:
            continue
        pairs = tuple(sorted((*device, ("pid", pid))))
        samples.append(Sample("npu_process_memory_bytes", point.value * MEBIBYTE, time, pairs))
    return samples


def _without_absent_memory(samples: list[Sample]) -> list[Sample]:
    absent = {
        (name, sample.labels)
        for sample in samples
        if sample.name in TOTALS and sample.value == 0.0
        for name in (sample.name, TOTALS[sample.name])
    }
    return [sample for sample in samples if (sample.name, sample.labels) not in absent]


class NpuExporterCollector:
    """Scrapes npu-exporter at `url`, the whole address of its page; TLS and limits as in `PageSource`."""

    name = "npu_exporter"

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
            reading = await asyncio.to_thread(parse_npu_exporter, text, now)
        except PageError as failure:
            raise CollectorError(f"{self._source.url}: {failure}") from failure
        self.notes = reading.notes
        return reading.samples
