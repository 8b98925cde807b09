"""libdcmi.so, the driver's management interface (DCMI), by ctypes: the few calls that no command of npu-smi has.

Prototypes, numbers and units are those of Huawei's DCMI API reference (Atlas A2 and A3; `dcmi_interface_api.h`):
`dcmi_get_device_utilization_rate`, `dcmi_get_device_aicore_info`, and `dcmi_get_device_info` with DCMI_MAIN_CMD_LP.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from collectors.dcmi.codes import NOT_SUPPORTED, meaning

MAX_CARDS = 64
MAIN_LOW_POWER = 8
SUB_CLOCK_REDUCTION = 9
"""DCMI_MAIN_CMD_LP, DCMI_LP_SUB_CMD_AICORE_FREQREDUC_CAUSE: 64 bits, refreshed every 100 ms, no history."""

AICORE, HBM_BANDWIDTH, VECTOR, OVERALL, CUBE = 2, 10, 12, 13, 14
"""Types of `dcmi_get_device_utilization_rate`, in percent; 14 is A2's, and 2 and 12 read 0 under a profiler."""


class DcmiError(Exception):
    """A call that returned `code`; the text says which, why and what to do."""

    def __init__(self, function: str, code: int) -> None:
        super().__init__(f"{function}: {code}, {meaning(code)}")
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
