"""A page of npu-exporter's as canonical samples."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from collectors.legacy import legacy_samples
from collectors.npu_exporter.names import ERROR_CODES, MACHINE, NAME, PLACEHOLDERS, VERSIONS, Row
from collectors.prometheus_text import PageError, PageParser, Point, Shape
from collectors.sample import Labels, Sample, labels

_DNS_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?")
MAX_AGE_SECONDS = 300.0
"""The exporter serves from a cache and stamps each reading: an older one is a device it no longer reaches."""

TOTALS = {
    "npu_hbm_total_bytes": "npu_hbm_used_bytes",
    "npu_memory_total_bytes": "npu_memory_used_bytes",
}
"""A total of zero says that the device has no such memory: neither figure is a reading then."""

OWN_LABELS = {"process_id": "pid", "v_dev_id": "vnpu", "udie": "die", "port": "port", "pcie_bw_type": "stat"}
"""The exporter's labels that tell series of one device apart, and ours."""

PCIE_STATISTICS = {"avgPcieBw": "avg", "minPcieBw": "min", "maxPcieBw": "max"}

IDENTITY_LABELS = {
    "pcie_bus_info": "bus_id",
    "vdie_id": "vdie_id",
    "serial_number": "serial",
    "product_type": "product",
}
"""The exporter's labels that go into `npu_info`, and ours."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Samples of a page, and notes on what on it could not be used."""

    samples: list[Sample]
    notes: tuple[str, ...]


@dataclass(slots=True)
class _Device:
    """One chip: its model, what else identifies it, and whether a reading of it is recent."""

    number: str
    name: str = ""
    more: dict[str, str] = field(default_factory=dict)
    fresh: bool = False

    def identity(self) -> Labels:
        name = {"name": self.name} if self.name else {}
        return labels(npu=self.number, chip="0", **name)


@dataclass(slots=True)
class _Block:
    """A set of labels, which stands on a page once for each name: a device and who uses it."""

    device: _Device
    own: Labels
    place: Labels
    keys: dict[tuple[Labels, bool], Labels] = field(default_factory=dict)

    def key(self, more: Labels, placed: bool) -> Labels:
        """The labels of a sample; many samples share one set."""
        found = self.keys.get((more, placed))
        if found is None:
            pairs = {*self.device.identity(), *more, *self.own, *(self.place if placed else ())}
            found = self.keys[more, placed] = tuple(sorted(pairs))
        return found


class NpuExporterPage:
    """Reads pages for some rows of the table; `complete` adds identities, error codes, users and versions."""

    def __init__(self, rows: Iterable[Row], *, complete: bool) -> None:
        self._targets = {name: (row, more) for row in rows for name, more in row.families()}
        self._complete = complete
        wanted: dict[str, Shape] = dict.fromkeys((*self._targets, NAME), "scalar")
        if complete:
            wanted |= dict.fromkeys((*MACHINE, *ERROR_CODES, *PLACEHOLDERS), "scalar")
        self._parser = PageParser(wanted)

    def read(self, text: str, now: float) -> Reading:
        """Canonical samples of a whole page; a reading has the time the exporter stamped on it, else `now`.

        The exporter counts chips, not cards: `npu` is its `id` and `chip` is always 0. Raises PageError if the
        page is cut off, malformed where it matters, or holds no device.
        """
        notes: dict[str, None] = {}
        found: dict[tuple[str, Labels], tuple[Sample, str]] = {}
        blocks: dict[int, _Block | None] = {}
        points = self._parser.parse(text)
        fresh = list(_fresh(points, blocks, notes, now))
        if not fresh and (self._complete or notes):
            raise PageError(next(iter(notes)) if notes else "the page has no device of npu-exporter's")
        for point, block, time in fresh:
            sample = self._sample(point, block, time)
            if sample is None:
                continue
            known = found.setdefault((sample.name, sample.labels), (sample, point.family))
            # Under two names it is one reading: from 26.0 the old names are printed beside the new.
            if known[0] is not sample and known[1] == point.family in self._targets:
                notes[f"{point.family} of NPU {block.device.number} stands twice on the page"] = None
        samples = _without_absent_memory([sample for sample, _ in found.values()])
        if self._complete:
            samples += [*_users(blocks.values(), now), *_machine(points, now)]
        return Reading(samples + legacy_samples(samples), tuple(notes))

    def _sample(self, point: Point, block: _Block, time: float) -> Sample | None:
        if not isinstance(point.value, float):
            return None
        target = self._targets.get(point.family)
        if target is not None:
            row, more = target
            value = row.convert(point.value)
            return None if value is None else Sample(row.canonical, value, time, block.key(more, row.placed))
        if point.family in ERROR_CODES and 0 < point.value < 2**64:  # 0 is no code
            code = (("code", f"{int(point.value):X}"),)
            return Sample("npu_error_active", 1.0, time, block.key(code, False))
        return None


def _fresh(
    points: Iterable[Point], blocks: dict[int, _Block | None], notes: dict[str, None], now: float
) -> Iterator[tuple[Point, _Block, float]]:
    """The points of devices that are still read, with the time of the reading.

    The sets of labels on a page are few, and each is one object: it is looked at once and kept in `blocks`.
    """
    devices: dict[str, _Device] = {}
    for point in points:
        if point.family in MACHINE or point.family in VERSIONS:
            continue
        key = id(point.labels)
        if key not in blocks:
            blocks[key] = _block(dict(point.labels), devices)
        block = blocks[key]
        if block is None:
            notes[f"{point.family} without an id"] = None
        elif point.time is not None and now - point.time > MAX_AGE_SECONDS:
            notes[f"NPU {block.device.number} was last read more than {MAX_AGE_SECONDS:g} s ago"] = None
        else:
            block.device.fresh = True
            yield point, block, now if point.time is None else min(point.time, now)


def _block(pairs: dict[str, str], devices: dict[str, _Device]) -> _Block | None:
    number = pairs.get("id") or pairs.get("npuID")
    if not number:
        return None
    device = devices.setdefault(number, _Device(number))
    device.name = device.name or pairs.get("model_name") or pairs.get("name", "")
    for theirs, ours in IDENTITY_LABELS.items():
        if pairs.get(theirs, "NA") not in ("", "NA"):
            device.more.setdefault(ours, pairs[theirs])
    own = tuple(
        (ours, PCIE_STATISTICS.get(pairs[theirs], pairs[theirs]))
        for theirs, ours in OWN_LABELS.items()
        if pairs.get(theirs)
    )
    return _Block(device, own, _place(pairs))


def _place(pairs: dict[str, str]) -> Labels:
    """Namespace, pod and container, as far as they are known.

    Series without a label for the namespace have the three joined by underscores in one, which their own names cannot
    hold; a container that no pod has may have them in its name.
    """
    container = pairs.get("container_name") or pairs.get("containerName", "")
    namespace, pod = pairs.get("namespace", ""), pairs.get("pod_name", "")
    parts = container.split("_")
    if "namespace" not in pairs and len(parts) == 3 and all(_DNS_NAME.fullmatch(part) for part in parts):
        namespace, pod, container = parts[0], pod or parts[1], parts[2]
    return tuple(
        (name, value)
        for name, value in (("container", container), ("namespace", namespace), ("pod", pod))
        if value
    )


def _without_absent_memory(samples: list[Sample]) -> list[Sample]:
    absent = {
        (name, sample.labels)
        for sample in samples
        if sample.name in TOTALS and sample.value == 0.0
        for name in (sample.name, TOTALS[sample.name])
    }
    return [sample for sample in samples if (sample.name, sample.labels) not in absent]


def _users(blocks: Iterable[_Block | None], now: float) -> list[Sample]:
    """Who each device is, and which containers use it."""
    found: dict[tuple[str, Labels], Sample] = {}
    for block in blocks:
        if block is None or not block.device.fresh:
            continue
        identity = block.device.identity()
        users = [("npu_info", tuple(block.device.more.items()))]
        if block.place:
            users.append(("npu_used_by", block.place))
        for name, more in users:
            key = tuple(sorted(identity + more))
            found[name, key] = Sample(name, 1.0, now, key)
    return list(found.values())


def _machine(points: Iterable[Point], now: float) -> Iterator[Sample]:
    """What the page says of the machine and of the exporter itself."""
    versions: dict[str, str] = {}
    for point in points:
        if point.family in MACHINE and isinstance(point.value, float) and point.value >= 0.0:
            yield Sample(MACHINE[point.family], point.value, now)
        elif point.family in VERSIONS:
            pairs = dict(point.labels)
            for theirs, ours in (("exporterVersion", "version"), ("driverVersion", "driver")):
                if pairs.get(theirs):
                    versions[ours] = pairs[theirs]
    if versions:
        yield Sample("npu_exporter_info", 1.0, now, labels(**versions))
