"""Why the AI cores are slowed down, and how busy each kind of core is, from the driver's own library (DCMI)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from collectors.blocking import Blocking
from collectors.dcmi.codes import NOT_SUPPORTED
from collectors.dcmi.library import (
    AICORE,
    CUBE,
    HBM_BANDWIDTH,
    OVERALL,
    VECTOR,
    Clock,
    DcmiError,
    DcmiLibrary,
)
from collectors.identity import Identities
from collectors.legacy import legacy_samples
from collectors.sample import CollectorError, Labels, Sample

T = TypeVar("T")

LIBRARY = Path("/usr/local/dcmi/libdcmi.so")
"""Where the driver's package puts it."""

MEGAHERTZ = 1e6
USAGES = {
    AICORE: "npu_aicore_usage_ratio",
    HBM_BANDWIDTH: "npu_hbm_bandwidth_usage_ratio",
    VECTOR: "npu_vector_usage_ratio",
    OVERALL: "npu_overall_usage_ratio",
    CUBE: "npu_cube_usage_ratio",
}
IDLE = "idle"
REASONS = {
    0: IDLE,
    2: "thermal",
    3: "over_current",  # seen by software: SW_EDP
    4: "over_current_peak",  # caught by the board's sensor: HW_EDP
    5: "power_break",
    8: "unstable_supply",  # SVFD
    10: "power_cap",  # set from outside, through the iBMC
    11: "load_aware",
}
"""Bits of the clock reduction, from the reference's table of them (DCMI_MAIN_CMD_LP)."""


@dataclass(slots=True)
class Device:
    """What one chip says; None and absent is what it does not support."""

    card: int
    chip: int
    name: str | None = None
    clock: Clock | None = None
    reasons: tuple[str, ...] | None = None
    usage: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def reduction_reasons(bits: int) -> tuple[str, ...]:
    """The words for the bits that are set; one that the reference does not name is `bit_N`."""
    return tuple(REASONS.get(bit, f"bit_{bit}") for bit in range(64) if bits >> bit & 1)


def read_devices(library: DcmiLibrary) -> tuple[list[Device], list[str]]:
    """Ask every chip of every card; the notes say which cards could not be asked for their chips.

    Raises DcmiError if the cards cannot be listed.
    """
    devices: list[Device] = []
    notes: list[str] = []
    for card in library.cards():
        try:
            chips = library.chips(card)
        except DcmiError as failure:
            notes.append(f"NPU {card}: {failure}")
            continue
        devices.extend(_read(library, card, chip) for chip in chips)
    return devices, notes


def _read(library: DcmiLibrary, card: int, chip: int) -> Device:
    device = Device(card, chip)
    device.name = _asked(device, partial(library.chip_name, card, chip)) or None
    device.clock = _asked(device, partial(library.clock, card, chip))
    bits = _asked(device, partial(library.clock_reductions, card, chip))
    device.reasons = None if bits is None else reduction_reasons(bits)
    for kind, metric in USAGES.items():
        percent = _asked(device, partial(library.usage_percent, card, chip, kind))
        if percent is not None and percent <= 100:
            device.usage[metric] = percent / 100.0
        elif percent is not None:
            device.notes.append(f"NPU {card} chip {chip}: {metric} reads {percent} %")
    return device


def _asked(device: Device, question: Callable[[], T]) -> T | None:
    """The answer, or None with a note; what the device does not support is no note."""
    try:
        return question()
    except DcmiError as failure:
        if failure.code != NOT_SUPPORTED:
            device.notes.append(f"NPU {device.card} chip {device.chip}: {failure}")
        return None


def device_samples(device: Device, identity: Labels, now: float) -> list[Sample]:
    """Canonical samples of what the chip said, timed `now`."""
    values = dict(device.usage)
    if device.clock is not None:
        for metric, megahertz in (
            ("npu_aicore_rated_frequency_hertz", device.clock.rated),
            ("npu_aicore_frequency_hertz", device.clock.current),
        ):
            if megahertz > 0:  # 0 is a clock that could not be read
                values[metric] = megahertz * MEGAHERTZ
    samples = [Sample(metric, value, now, identity) for metric, value in values.items()]
    if device.reasons is not None:
        throttled = any(reason != IDLE for reason in device.reasons)
        samples.append(Sample("npu_throttled", float(throttled), now, identity))
        samples.extend(
            Sample("npu_clock_reduced", 1.0, now, tuple(sorted((*identity, ("reason", reason)))))
            for reason in device.reasons
        )
    return samples


class DcmiCollector:
    """Asks the library at `path`, on a thread of its own: a driver that hangs holds up nothing else."""

    name = "dcmi"

    def __init__(
        self,
        path: Path = LIBRARY,
        *,
        identities: Identities | None = None,
        interval_seconds: float = 5.0,
    ) -> None:
        self.interval_seconds = interval_seconds
        self.notes: tuple[str, ...] = ()
        self._path = path
        self._identities = identities or Identities()
        self._library: DcmiLibrary | None = None
        self._calls: Blocking[tuple[list[Device], list[str]]] = Blocking(
            "dcmi-collector", "the driver may hang: see dmesg"
        )

    async def collect(self, now: float) -> list[Sample]:
        """Ask every chip once; raises CollectorError. `notes` tells what could not be read."""
        self.notes = ()
        devices, notes = await self._calls.run(self._read)
        for device in devices:
            notes.extend(device.notes)
        samples = [
            sample
            for device in devices
            for sample in device_samples(
                device, self._identities.of_chip(device.card, device.chip, device.name), now
            )
        ]
        if not samples:
            raise CollectorError(notes[0] if notes else f"{self._path}: no device is listed, or none answers")
        self.notes = tuple(notes)
        return samples + legacy_samples(samples)

    def _read(self) -> tuple[list[Device], list[str]]:
        try:
            if self._library is None:
                self._library = DcmiLibrary(self._path)
            return read_devices(self._library)
        except OSError as failure:
            raise CollectorError(
                f"{self._path} cannot be loaded: {failure}; is LD_LIBRARY_PATH set to the driver's lib64 folders?"
            ) from failure
        except DcmiError as failure:
            raise CollectorError(str(failure)) from failure
