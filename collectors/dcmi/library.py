"""libdcmi.so, the driver's management interface (DCMI), by ctypes: the few calls that no command of npu-smi has.

Prototypes, numbers and units are those of Huawei's DCMI API reference (Atlas A2 and A3; `dcmi_interface_api.h`):
`dcmi_get_device_utilization_rate`, `dcmi_get_device_aicore_info`, and `dcmi_get_device_info` with DCMI_MAIN_CMD_LP.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

MAX_CARDS = 64
MAIN_LOW_POWER = 8
SUB_CLOCK_REDUCTION = 9
"""DCMI_MAIN_CMD_LP, DCMI_LP_SUB_CMD_AICORE_FREQREDUC_CAUSE: 64 bits, refreshed every 100 ms, no history."""

AICORE, HBM_BANDWIDTH, VECTOR, OVERALL, CUBE = 2, 10, 12, 13, 14
"""Types of `dcmi_get_device_utilization_rate`, in percent; 14 is A2's, and 2 and 12 read 0 under a profiler."""

NOT_SUPPORTED = -8255


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a return code says, and what to do."""

    reason: str
    mend: str


_HELD = "see which container has /dev/davinci*, or read npu-exporter from here"
CODES = {
    -8001: Meaning("a parameter is not valid", "the library may be of another driver version"),
    -8002: Meaning("no permission", "run as root or join the group HwHiAiUser"),
    -8003: Meaning("the driver has no memory left", "see dmesg"),
    -8005: Meaning("inner error, often because the card is held by another container", _HELD),
    -8006: Meaning("the driver did not answer in time", "see dmesg"),
    -8007: Meaning("no such device", "see `npu-smi info -l`"),
    -8008: Meaning("the device is absent", "see `lspci -d 19e5:` and dmesg"),
    -8009: Meaning("the driver refused the call (ioctl)", "see dmesg"),
    -8010: Meaning("no message can be sent to the device", "see dmesg"),
    -8011: Meaning("the device sent no message", "see dmesg"),
    -8012: Meaning("the device is not ready", "wait until it has started; if it stays so, see dmesg"),
    -8013: Meaning("not allowed in this container", "run on the host, or read npu-exporter from here"),
    -8017: Meaning("the device is being upgraded", "wait until the upgrade is done"),
    -8020: Meaning("the card is held by another container", _HELD),
    NOT_SUPPORTED: Meaning("not supported by this device", "nothing"),
}
"""Return codes, from the reference's list of them."""


class DcmiError(Exception):
    """A call that returned `code`; the text says which, why and what to do."""

    def __init__(self, function: str, code: int) -> None:
        meaning = CODES.get(code, Meaning("a code that is not known", "look it up in the DCMI reference"))
        super().__init__(f"{function}: {code}, {meaning.reason}; {meaning.mend}")
        self.code = code


class _AicoreInfo(ctypes.Structure):
    _fields_ = (("freq", ctypes.c_uint), ("cur_freq", ctypes.c_uint))


class _ChipInfo(ctypes.Structure):
    _fields_ = (
        ("chip_type", ctypes.c_char * 32),
        ("chip_name", ctypes.c_char * 32),
        ("chip_ver", ctypes.c_char * 32),
        ("aicore_cnt", ctypes.c_uint),
    )


@dataclass(frozen=True, slots=True)
class Clock:
    """Rated and current clock of the AI cores in MHz."""

    rated: int
    current: int


class DcmiLibrary:
    """The loaded and initialised library; its calls block, and a driver that hangs blocks them for ever.

    Raises OSError if `path` cannot be loaded, and DcmiError if it cannot be initialised.
    """

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))
        self._call("dcmi_init")

    def cards(self) -> list[int]:
        """Card ids, which are npu-smi's NPU ids."""
        count, found = ctypes.c_int(0), (ctypes.c_int * MAX_CARDS)()
        self._call("dcmi_get_card_list", ctypes.byref(count), found, ctypes.c_int(MAX_CARDS))
        return list(found[: max(0, min(count.value, MAX_CARDS))])

    def chips(self, card: int) -> range:
        """Ids of the NPU chips on a card, without its MCU and CPU."""
        chips, mcu, cpu = ctypes.c_int(0), ctypes.c_int(0), ctypes.c_int(0)
        self._call(
            "dcmi_get_device_id_in_card",
            ctypes.c_int(card),
            ctypes.byref(chips),
            ctypes.byref(mcu),
            ctypes.byref(cpu),
        )
        return range(max(0, chips.value))

    def chip_name(self, card: int, chip: int) -> str:
        """The model, for example 910B3."""
        info = _ChipInfo()
        self._call("dcmi_get_device_chip_info", ctypes.c_int(card), ctypes.c_int(chip), ctypes.byref(info))
        return bytes(info.chip_name).decode(errors="backslashreplace").strip()

    def clock(self, card: int, chip: int) -> Clock:
        info = _AicoreInfo()
        self._call("dcmi_get_device_aicore_info", ctypes.c_int(card), ctypes.c_int(chip), ctypes.byref(info))
        return Clock(int(info.freq), int(info.cur_freq))

    def clock_reductions(self, card: int, chip: int) -> int:
        """The bits that say why the AI cores run below their rated clock; 0 when they do not."""
        bits, size = ctypes.c_ulonglong(0), ctypes.c_uint(ctypes.sizeof(ctypes.c_ulonglong))
        self._call(
            "dcmi_get_device_info",
            ctypes.c_int(card),
            ctypes.c_int(chip),
            ctypes.c_int(MAIN_LOW_POWER),
            ctypes.c_uint(SUB_CLOCK_REDUCTION),
            ctypes.byref(bits),
            ctypes.byref(size),
        )
        return bits.value

    def usage_percent(self, card: int, chip: int, kind: int) -> int:
        value = ctypes.c_uint(0)
        self._call(
            "dcmi_get_device_utilization_rate",
            ctypes.c_int(card),
            ctypes.c_int(chip),
            ctypes.c_int(kind),
            ctypes.byref(value),
        )
        return value.value

    def _call(self, name: str, *arguments: object) -> None:
        try:
            function: Callable[..., int] = getattr(self._library, name)
        except AttributeError:  # a library older than the call
            raise DcmiError(name, NOT_SUPPORTED) from None
        code = function(*arguments)
        if code != 0:
            raise DcmiError(name, code)
