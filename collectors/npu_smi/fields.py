"""Keys of npu-smi's `key : value` outputs: what each is called here, in which base unit, and which types print it.

The words are those of Huawei's npu-smi reference and of the tool's published source.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from collectors.npu_smi.cells import BLANK, MEBIBYTE, Unreadable, health, ratio, whole, word

Value = str | float | tuple[str, ...] | tuple[float, ...] | None
Reader = Callable[[str], Value]


@dataclass(frozen=True, slots=True)
class Field:
    """A name, how its text is read (None for `NA`; raises Unreadable), and the `-t` types that print it."""

    name: str
    read: Reader
    types: tuple[str, ...]


_NUMBER = re.compile(r"-?[0-9]{1,20}(?:\.[0-9]{1,9})?")
_HEX = re.compile(r"(?:0[xX])?([0-9A-Fa-f]{4,8})")


def plain_number(text: str) -> float | None:
    """A plain number; None for `NA`; raises Unreadable."""
    if text in BLANK:
        return None
    if _NUMBER.fullmatch(text) is None:
        raise Unreadable
    return float(text)


def _count(text: str) -> float | None:
    value = plain_number(text)
    if value is not None and (value < 0 or value != int(value)):
        raise Unreadable
    return value


def _times(unit: float) -> Reader:
    def read(text: str) -> float | None:
        value = plain_number(text)
        if value is not None and value < 0:
            raise Unreadable
        return None if value is None else value * unit

    return read


def _codes(text: str) -> tuple[str, ...]:
    """Fault codes as the exporter writes them: hexadecimal, upper case, no 0x; no code is an empty tuple."""
    if text in BLANK:
        return ()
    found = [_HEX.fullmatch(token) for token in re.split(r"[\s,]+", text.strip(" ,"))]
    if any(match is None for match in found):
        raise Unreadable
    return tuple(f"{int(match[1], 16):X}" for match in found if match is not None)


def _events(text: str) -> tuple[str, ...]:
    if text in BLANK:
        return ()
    found = re.findall(r"event id\s*=\s*0[xX]([0-9A-Fa-f]+)", text)
    if not found:
        raise Unreadable
    return tuple(f"{int(code, 16):X}" for code in found)


def _cells(text: str) -> list[str] | None:
    if text in BLANK:
        return None
    if not (text.startswith("[") and text.endswith("]")):
        raise Unreadable
    return text[1:-1].split()


def _words(text: str) -> tuple[str, ...] | None:
    cells = _cells(text)
    return None if cells is None else tuple(cells)


def _counts(text: str, unit: float = 1.0) -> tuple[float, ...] | None:
    cells = _cells(text)
    if cells is None:
        return None
    counts = [_count(cell) for cell in cells]
    if any(count is None for count in counts):
        raise Unreadable
    return tuple(count * unit for count in counts if count is not None)


def _gigabits(text: str) -> tuple[float, ...] | None:
    return _counts(text, 1e9)


def _rows() -> dict[str, Field]:
    usages, common, memory, ecc = ("usages",), ("common",), ("memory",), ("ecc",)
    megahertz, mebibyte = _times(1e6), _times(MEBIBYTE)
    rows: dict[str, Field] = {
        # usages, common
        "DDR Capacity(MB)": Field("memory_total_bytes", mebibyte, ("usages", "memory")),
        "Total DDR Capacity(MB)": Field("memory_physical_bytes", mebibyte, memory),
        # Of the memory or of the flash, whichever was asked for.
        "Capacity(MB)": Field("capacity_bytes", mebibyte, ("memory", "flash")),
        "Total Capacity(MB)": Field("memory_physical_bytes", mebibyte, memory),
        "Memory Capacity(MB)": Field("memory_total_bytes", mebibyte, usages),
        "DDR Usage Rate(%)": Field("memory_usage_ratio", ratio, usages),
        "Memory Usage Rate(%)": Field("memory_usage_ratio", ratio, ("common", "usages")),
        "DDR Hugepages Total(page)": Field("hugepages_total", _count, usages),
        "DDR Hugepages Usage Rate(%)": Field("hugepages_usage_ratio", ratio, usages),
        "Hugepages Total(page)": Field("hugepages_total", _count, usages),
        "Hugepages Usage Rate(%)": Field("hugepages_usage_ratio", ratio, usages),
        "HBM Capacity(MB)": Field("hbm_total_bytes", mebibyte, ("usages", "memory")),
        "HBM Usage Rate(%)": Field("hbm_usage_ratio", ratio, ("usages", "common")),
        "Aicore Usage Rate(%)": Field("aicore_usage_ratio", ratio, ("usages", "common")),
        "Aivector Usage Rate(%)": Field("vector_usage_ratio", ratio, usages),
        "Vectorcore Usage Rate(%)": Field("vector_usage_ratio", ratio, usages),
        "Aicube Usage Rate(%)": Field("cube_usage_ratio", ratio, usages),
        "Aicpu Usage Rate(%)": Field("aicpu_usage_ratio", ratio, usages),
        "Ctrlcpu Usage Rate(%)": Field("ctrlcpu_usage_ratio", ratio, usages),
        "NPU Utilization(%)": Field("overall_usage_ratio", ratio, usages),
        "DDR Bandwidth Usage Rate(%)": Field("memory_bandwidth_usage_ratio", ratio, usages),
        "Memory Bandwidth Usage Rate(%)": Field("memory_bandwidth_usage_ratio", ratio, usages),
        "HBM Bandwidth Usage Rate(%)": Field("hbm_bandwidth_usage_ratio", ratio, usages),
        "Aicore Freq(MHZ)": Field("aicore_rated_frequency_hertz", megahertz, common),
        "Aicore curFreq(MHZ)": Field("aicore_frequency_hertz", megahertz, common),
        "Aicore Count": Field("aicores", _count, common),
        "Temperature(C)": Field("temperature_celsius", plain_number, ("common", "temp")),
        "NPU Temperature(C)": Field("temperature_celsius", plain_number, ("temp",)),
        "NPU Real-time Power(W)": Field("power_watts", _times(1.0), ("power", "common")),
        "Rated Power Dissipation(W)": Field("power_watts", _times(1.0), ("power", "common")),
        "Power Dissipation(W)": Field("power_watts", _times(1.0), ("power", "common")),
        # memory
        "DDR Clock Speed(MHz)": Field("memory_frequency_hertz", megahertz, memory),
        "Clock Speed(MHz)": Field("memory_frequency_hertz", megahertz, memory),
        "HBM Clock Speed(MHz)": Field("hbm_frequency_hertz", megahertz, memory),
        "HBM Temperature(C)": Field("hbm_temperature_celsius", plain_number, ("memory", "sensors")),
        "HBM Manufacturer ID": Field("hbm_manufacturer_id", word, memory),
        # volt, sensors
        "Voltage(V)": Field("voltage_volts", _times(1.0), ("volt",)),
        "Soc Max Temperature(C)": Field("soc_max_temperature_celsius", plain_number, ("sensors",)),
        "SFP Temperature(C)": Field("sfp_temperature_celsius", plain_number, ("sensors",)),
        "NDIE Temperature(C)": Field("ndie_temperature_celsius", plain_number, ("sensors",)),
        # health
        "Health": Field("health", health, ("health",)),
        "Health Status": Field("health", health, ("health",)),
        "Error Code": Field("error_codes", _codes, ("health",)),
        "Error Information": Field("error_information", word, ("health",)),
        "Fault Event Count": Field("fault_events", _count, ("current-fault-event",)),
        "Fault Event Information": Field("fault_event_codes", _events, ("current-fault-event",)),
        # err-count, pcie-err
        "Lcrc Error Count": Field("pcie_lcrc_errors", _count, ("err-count",)),
        "Ecrc Error Count": Field("pcie_ecrc_errors", _count, ("err-count",)),
        "TX Error Count": Field("link_tx_errors", _count, ("sio-info", "err-count")),
        "RX Error Count": Field("link_rx_errors", _count, ("sio-info", "err-count")),
        "Retry Count": Field("link_retries", _count, ("err-count",)),
        "Pcs Rx Error Count": Field("pcie_pcs_rx_errors", _count, ("pcie-err",)),
        "Phy Lane Error Count": Field("pcie_lane_errors", _count, ("pcie-err",)),
        "Dl Lcrc Error Count": Field("pcie_lcrc_errors", _count, ("pcie-err",)),
        "Dl Dcrc Error Count": Field("pcie_dcrc_errors", _count, ("pcie-err",)),
        # hccs
        "hccs health status": Field("hccs_health", word, ("hccs",)),
        "hccs lane mode": Field("hccs_lane_modes", _counts, ("hccs",)),
        "hccs link lane list": Field("hccs_link_lanes", _words, ("hccs",)),
        "hccs link speed": Field("hccs_link_bits_per_second", _gigabits, ("hccs",)),
        "hccs tx packets": Field("hccs_tx_packets", _counts, ("hccs",)),
        "hccs tx bytes": Field("hccs_tx_bytes", _counts, ("hccs",)),
        "hccs rx packets": Field("hccs_rx_packets", _counts, ("hccs",)),
        "hccs rx bytes": Field("hccs_rx_bytes", _counts, ("hccs",)),
        "hccs retry count": Field("hccs_retries", _counts, ("hccs",)),
        "hccs error count": Field("hccs_errors", _counts, ("hccs",)),
        "hccs first error lane": Field("hccs_first_error_lane", word, ("hccs",)),
        # Lists and identities
        "Total Count": Field("npus", _count, ("list",)),
        "Slot ID": Field("slot", word, ("board", "phyid-remap")),
        "Chip Phy-ID": Field("phy_id", whole, ("phyid-remap",)),
        "HBM ECC-Enable Status": Field("hbm_ecc_enabled", word, ("ecc-enable",)),
        "System Time(local)": Field("system_time", word, ("sys-time",)),
        "Flash Count": Field("flashes", _count, ("flash",)),
        "Flash ID": Field("flash_id", word, ("flash",)),
        "Manufacturer ID": Field("manufacturer_id", word, ("flash",)),
        "Product Name": Field("product_name", word, ("board", "list")),
        "Serial Number": Field("serial_number", word, ("board", "list")),
        "PCIe Bus Info": Field("bus_id", word, ("board",)),
        "Chip Name": Field("chip_name", word, ("board",)),
    }
    for key in (
        *(
            "NPU Name",
            "Chip Type",
            "Chip Version",
            "Model",
            "Manufacturer",
            "Software Version",
            "Firmware Version",
        ),
        *("Compatibility", "Board ID", "Main Board ID", "PCB ID", "BOM ID", "Class ID", "PCI Vendor ID"),
        *(
            "PCI Device ID",
            "Subsystem Vendor ID",
            "Subsystem Device ID",
            "Vendor ID",
            "Device ID",
            "Module ID",
        ),
        *("Module Vendor ID", "VDie ID", "NDie ID", "DDie ID", "Die ID", "Chip Position ID", "Chip Fault"),
        "Faulty Chip Count",
    ):
        rows[key] = Field(re.sub(r"\W+", "_", key).lower(), word, ("board",))
    for unit in ("VDEC", "VPC", "VENC", "JPEGE", "JPEGD"):
        rows[f"DVPP {unit} Usage Rate(%)"] = Field(f"dvpp_{unit.lower()}_usage_ratio", ratio, usages)
    for what, name in (("DDR", "memory"), ("HBM", "hbm")):
        for bits in ("Single", "Double"):
            stem = f"{name}_ecc_{bits.lower()}_bit"
            rows[f"{what} {bits} Bit Error Count"] = Field(f"{stem}_errors", _count, ecc)
            rows[f"{what} {bits} Bit Aggregate Total Err Cnt"] = Field(f"{stem}_errors_ever", _count, ecc)
            rows[f"{what} {bits} Bit Isolated Pages Count"] = Field(f"{stem}_isolated_pages", _count, ecc)
            rows[f"{what} {bits} Bit Next-Isolated Pages Count"] = Field(
                f"{stem}_next_isolated_pages", _count, ecc
            )
    for bits in ("Single", "Double"):
        rows[f"{bits}-bit Error Count"] = Field(f"memory_ecc_{bits.lower()}_bit_errors", _count, ecc)
    return rows


def folded(key: str) -> str:
    """A key as it is looked up: case, blanks and the place of its unit do not matter."""
    return re.sub(r"\s+", "", key).lower()


FIELDS: dict[str, Field] = {folded(key): field for key, field in _rows().items()}
"""The known keys, folded."""
