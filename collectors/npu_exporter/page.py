"""A page of npu-exporter's as canonical samples."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from collectors.legacy import legacy_samples
from collectors.npu_exporter.names import ERROR_CODES, MACHINE, NAME, PLACEHOLDERS, VERSIONS, Row
from collectors.page_layout import Figure, PageLayout
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
    """Samples of a page or of a share of it, notes on what could not be used, and how many devices are still read."""

    samples: list[Sample]
    notes: tuple[str, ...]
    devices: int


@dataclass(slots=True)
class _Device:
    """One chip: its model, and what else identifies it; `place` is its number on the page."""

    number: str
    place: int
    name: str = ""
    more: dict[str, str] = field(default_factory=dict)

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


@dataclass(slots=True)
class _Meaning:
    """What one series of a page is: of which device, by which row of the table, with which labels as a sample.

    Without a row it is an error code or only an identity. `alone` says that no other series gives the same sample.
    """

    family: str
    block: _Block | None
    row: Row | None = None
    key: Labels = ()
    alone: bool = True


class NpuExporterPage:
    """Reads pages for some rows of the table; `complete` adds identities, error codes, users and versions."""

    def __init__(self, rows: Iterable[Row], *, complete: bool) -> None:
        self.targets: Mapping[str, tuple[Row, Labels]] = {
            name: (row, more) for row in rows for name, more in row.families()
        }
        self.complete = complete
        wanted: dict[str, Shape] = dict.fromkeys((*self.targets, NAME), "scalar")
        if complete:
            wanted |= dict.fromkeys((*MACHINE, *ERROR_CODES, *PLACEHOLDERS), "scalar")
        self.parser = PageParser(wanted)

    def read(self, text: str, now: float) -> Reading:
        """Canonical samples of a whole page; a reading has the time the exporter stamped on it, else `now`.

        The exporter counts chips, not cards: `npu` is its `id` and `chip` is always 0. Raises PageError if the
        page is cut off, malformed where it matters, or holds no device.
        """
        seen, [figures] = self.look(text)
        return self.checked(seen.reading(figures, now))

    def look(self, text: str, shares: int = 1) -> tuple[SeenPage, list[list[Figure]]]:
        """What stands where on a page, and its figures by share; raises PageError as `read` does."""
        points = self.parser.parse(text)
        seen = SeenPage(self, text, points, shares)
        figures: list[list[Figure]] = [[] for _ in range(shares)]
        for point, share in zip(points, seen.share_of, strict=True):
            assert isinstance(point.value, float), "no family of the exporter's is a histogram"
            figures[share].append((point.value, point.time))
        return seen, figures

    def checked(self, reading: Reading) -> Reading:
        """The same; raises PageError if it tells of no device where it should."""
        if not reading.devices and (self.complete or reading.notes):
            raise PageError(reading.notes[0] if reading.notes else "the page has no device of npu-exporter's")
        return reading


class SeenPage:
    """What stands where on a page: pages of the same lines are read by it, whole or one share of the devices a time."""

    def __init__(self, page: NpuExporterPage, text: str, points: Sequence[Point], shares: int) -> None:
        self._page = page
        meanings = _meanings(points, page.targets)
        self.share_of = [one.block.device.place % shares if one.block else 0 for one in meanings]
        self._meanings: list[list[_Meaning]] = [[] for _ in range(shares)]
        for meaning, share in zip(meanings, self.share_of, strict=True):
            self._meanings[share].append(meaning)
        self._layout = PageLayout.of(text, page.parser)
        self._needed = [self._layout.only(of == share for of in self.share_of) for share in range(shares)]
        self._users = _users(meanings) if page.complete else []
        self._versions = _versions(points)

    def figures(self, text: str, share: int = 0) -> list[Figure] | None:
        """The figures of a share of a page; None if it has other lines than the page that was seen."""
        return self._layout.read(text, self._needed[share])

    def reading(self, figures: Iterable[Figure], now: float, share: int = 0) -> Reading:
        """The samples of a share's figures."""
        notes: dict[str, None] = {}
        samples: list[Sample] = []
        given: dict[tuple[str, Labels], tuple[Sample, str]] = {}
        fresh: set[str] = set()
        for meaning, (value, time) in zip(self._meanings[share], figures, strict=True):
            block = meaning.block
            if block is None:
                if meaning.family in MACHINE:
                    samples += _machine(meaning.family, value, now)
                elif meaning.family not in VERSIONS:
                    notes[f"{meaning.family} without an id"] = None
                continue
            device = block.device.number
            if time is None or time > now:
                time = now
            elif now - time > MAX_AGE_SECONDS:
                notes[f"NPU {device} was last read more than {MAX_AGE_SECONDS:g} s ago"] = None
                continue
            fresh.add(device)
            sample = _sample(meaning, block, value, time)
            if sample is None:
                continue
            if not meaning.alone:
                # Under two names it is one reading: from 26.0 the old names are printed beside the new.
                first, family = given.setdefault((sample.name, sample.labels), (sample, meaning.family))
                if first is not sample:
                    if family == meaning.family in self._page.targets:
                        notes[f"{family} of NPU {device} stands twice on the page"] = None
                    continue
            samples.append(sample)
        samples = _without_absent_memory(samples)
        if self._page.complete:
            samples += [Sample(name, 1.0, now, key) for device, name, key in self._users if device in fresh]
            samples += [Sample("npu_exporter_info", 1.0, now, self._versions)] if self._versions else []
            samples += legacy_samples(samples)
        return Reading(samples, tuple(notes), len(fresh))


def _meanings(points: Iterable[Point], targets: Mapping[str, tuple[Row, Labels]]) -> list[_Meaning]:
    """What each point is.

    The sets of labels on a page are few, and each is one object: it is looked at once.
    """
    devices: dict[str, _Device] = {}
    blocks: dict[int, _Block | None] = {}
    found: list[_Meaning] = []
    for point in points:
        if point.family in MACHINE or point.family in VERSIONS:
            found.append(_Meaning(point.family, None))
            continue
        key = id(point.labels)
        if key not in blocks:
            blocks[key] = _block(dict(point.labels), devices)
        found.append(_Meaning(point.family, blocks[key]))
    # Only now the models of all devices are known, which are not on every line.
    by_sample: dict[tuple[str, Labels], _Meaning] = {}
    for meaning in found:
        if meaning.block is not None and meaning.family in targets:
            meaning.row, more = targets[meaning.family]
            meaning.key = meaning.block.key(more, meaning.row.placed)
            other = by_sample.setdefault((meaning.row.canonical, meaning.key), meaning)
            if other is not meaning:
                other.alone = meaning.alone = False
        elif meaning.family in ERROR_CODES:
            meaning.alone = False
    return found


def _sample(meaning: _Meaning, block: _Block, value: float, time: float) -> Sample | None:
    row = meaning.row
    if row is not None:
        converted = row.convert(value)
        return None if converted is None else Sample(row.canonical, converted, time, meaning.key)
    if meaning.family in ERROR_CODES and 0 < value < 2**64:  # 0 is no code
        code = (("code", f"{int(value):X}"),)
        return Sample("npu_error_active", 1.0, time, block.key(code, False))
    return None


def _block(pairs: dict[str, str], devices: dict[str, _Device]) -> _Block | None:
    number = pairs.get("id") or pairs.get("npuID")
    if not number:
        return None
    device = devices.setdefault(number, _Device(number, len(devices)))
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
    if not absent:
        return samples
    names = {name for name, _ in absent}
    return [one for one in samples if one.name not in names or (one.name, one.labels) not in absent]


def _users(meanings: Iterable[_Meaning]) -> list[tuple[str, str, Labels]]:
    """Who each device is, and which containers use it: the device's number, and name and labels of the sample."""
    found: dict[tuple[str, str, Labels], None] = {}
    for block in {id(one.block): one.block for one in meanings}.values():
        if block is None:
            continue
        identity = block.device.identity()
        users = [("npu_info", tuple(block.device.more.items()))]
        if block.place:
            users.append(("npu_used_by", block.place))
        for name, more in users:
            found[block.device.number, name, tuple(sorted(identity + more))] = None
    return list(found)


def _machine(family: str, value: float, now: float) -> Iterator[Sample]:
    """What the page says of the machine itself."""
    if value >= 0.0:
        yield Sample(MACHINE[family], value, now)


def _versions(points: Iterable[Point]) -> Labels:
    """What the page says of the exporter's and the driver's version."""
    versions: dict[str, str] = {}
    for point in points:
        if point.family in VERSIONS:
            pairs = dict(point.labels)
            for theirs, ours in (("exporterVersion", "version"), ("driverVersion", "driver")):
                if pairs.get(theirs):
                    versions[ours] = pairs[theirs]
    return labels(**versions)
