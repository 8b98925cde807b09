"""`npu-smi info watch` and `npu-smi info -t TYPE` of the simulated node, as the real tool prints them of a 910B."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sim.device import HBM_TOTAL_MIB, IDLE_HBM_MIB, RATED_MEGAHERTZ, Card
from sim.npu_smi import FIRST_PID, PROCESS, used_mib

if TYPE_CHECKING:
    from sim.node import Node

AICORES = 20
LINKS = 7
LINK_PACKET_BYTES = 20
VOLTS = 0.85
_HEADINGS = (
    *("NpuID(Idx)", "ChipId(Idx)", "Pwr(W)", "Temp(C)", "AI Core(%)", "AI Cpu(%)", "Ctrl Cpu(%)"),
    *("Memory(%)", "Memory BW(%)"),
)
_NEWER_HEADINGS = ("NPU Util(%)", "AI Cube(%)")
_ECC = ("Error Count", "Aggregate Total Err Cnt", "Isolated Pages Count")


def watch(node: Node, *, header: bool = True) -> str:
    """The header, if wanted, and one row for each card."""
    rows = [_watch_line(_HEADINGS, _NEWER_HEADINGS)] if header else []
    for index, card in enumerate(node.cards):
        memory = round(100 * used_mib(node, index) / HBM_TOTAL_MIB)
        first = (index, 0, f"{card.watts:.1f}", round(card.celsius), _percent(card.aicore), 0, 4, memory)
        newer = (_percent(card.aicore), _percent(0.9 * card.aicore))
        rows.append(_watch_line((*first, _percent(card.bandwidth)), newer))
    return "\n".join(rows) + "\n"


def details(node: Node, kind: str, npu: int, chip: int) -> str:
    """The output of one type, for a chip; what the tool says where there is none."""
    if not 0 <= npu < len(node.cards):
        return "Invalid card id.\n"
    if chip != 0:
        return "Invalid chip id.\n"
    if kind not in TYPES:
        return unsupported(kind)
    pairs = TYPES[kind](node, npu, node.cards[npu])
    width = 40 if kind == "ecc" else 30
    lines = [f"\t{key:<{width}} : {value}" for key, value in (("NPU ID", npu), ("Chip ID", chip), *pairs)]
    return "\n".join([*lines, *(_processes(node, npu) if kind == "proc-mem" else ())]) + "\n"


def unsupported(kind: str) -> str:
    """What the tool says of a type that the device does not know."""
    return f"This device does not support querying {kind}.\n"


_Pairs = tuple[tuple[str, object], ...]


def _usages(node: Node, npu: int, card: Card) -> _Pairs:
    return (
        ("HBM Capacity(MB)", HBM_TOTAL_MIB),
        ("HBM Usage Rate(%)", round(100 * used_mib(node, npu) / HBM_TOTAL_MIB)),
        ("Aicore Usage Rate(%)", _percent(card.aicore)),
        ("Aivector Usage Rate(%)", _percent(0.6 * card.aicore)),
        ("Aicpu Usage Rate(%)", 0),
        ("Ctrlcpu Usage Rate(%)", 4),
        ("HBM Bandwidth Usage Rate(%)", _percent(card.bandwidth)),
        ("NPU Utilization(%)", _percent(card.aicore)),
        ("Aicube Usage Rate(%)", _percent(0.9 * card.aicore)),
    )


def _common(node: Node, npu: int, card: Card) -> _Pairs:
    return (
        ("Memory Usage Rate(%)", 0),
        ("HBM Usage Rate(%)", round(100 * used_mib(node, npu) / HBM_TOTAL_MIB)),
        ("Aicore Usage Rate(%)", _percent(card.aicore)),
        ("Aicore Freq(MHZ)", RATED_MEGAHERTZ),
        ("Aicore curFreq(MHZ)", card.megahertz),
        ("Aicore Count", AICORES),
        ("Temperature(C)", round(card.celsius)),
        ("NPU Real-time Power(W)", f"{card.watts:.1f}"),
    )


def _memory(node: Node, npu: int, card: Card) -> _Pairs:
    return (
        ("DDR Capacity(MB)", 0),
        ("DDR Clock Speed(MHz)", 0),
        ("HBM Capacity(MB)", HBM_TOTAL_MIB),
        ("HBM Clock Speed(MHz)", 1600),
        ("HBM Temperature(C)", round(card.celsius - 3)),
        ("HBM Manufacturer ID", "0x57"),
    )


def _health(node: Node, npu: int, card: Card) -> _Pairs:
    return (("Health Status", "OK"), ("Error Code", "NA"), ("Error Information", "NA"))


def _ecc(node: Node, npu: int, card: Card) -> _Pairs:
    return tuple((f"HBM {bits} Bit {what}", 0) for what in _ECC for bits in ("Single", "Double"))


def _hccs(node: Node, npu: int, card: Card) -> _Pairs:
    packets = int(card.link_bytes / LINKS / LINK_PACKET_BYTES)
    return (
        ("hccs health status", "OK"),
        ("hccs lane mode", _array(4)),
        ("hccs link lane list", _array(1111)),
        ("hccs link speed", _array(224)),
        ("hccs tx packets", _array(packets)),
        ("hccs tx bytes", _array(packets * LINK_PACKET_BYTES)),
        ("hccs rx packets", _array(packets)),
        ("hccs rx bytes", _array(packets * LINK_PACKET_BYTES)),
        ("hccs retry count", _array(0)),
        ("hccs error count", _array(0)),
        ("hccs first error lane", "NA"),
    )


def _err_count(node: Node, npu: int, card: Card) -> _Pairs:
    keys = ("TX Error Count", "RX Error Count", "Lcrc Error Count", "Ecrc Error Count", "Retry Count")
    return tuple((key, 0) for key in keys)


def _volt(node: Node, npu: int, card: Card) -> _Pairs:
    return (("Voltage(V)", f"{VOLTS:.2f}"),)


def _proc_mem(node: Node, npu: int, card: Card) -> _Pairs:
    return ()


TYPES: dict[str, Callable[[Node, int, Card], _Pairs]] = {
    "usages": _usages,
    "common": _common,
    "memory": _memory,
    "health": _health,
    "ecc": _ecc,
    "hccs": _hccs,
    "err-count": _err_count,
    "volt": _volt,
    "proc-mem": _proc_mem,
}
"""The types that a card answers, and what it says between its numbers and the end."""


def _processes(node: Node, npu: int) -> tuple[str, ...]:
    if node.control.down:
        return ()
    memory = used_mib(node, npu) - IDLE_HBM_MIB
    return (f"\tProcess id:{FIRST_PID + npu}  Process name:{PROCESS:<18}Process memory(MB):{memory}",)


def _watch_line(first: tuple[object, ...], newer: tuple[object, ...]) -> str:
    return "".join(f"{cell:<12}" for cell in first) + "".join(f" {cell:<12}" for cell in newer)


def _percent(share: float) -> int:
    return round(100 * share)


def _array(value: int) -> str:
    return "[" + "".join(f"{value:<21}" for _ in range(LINKS)) + "]"
