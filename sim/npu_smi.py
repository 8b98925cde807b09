"""`npu-smi` of the simulated node: its tables as the real tool prints them, and the tool itself.

`python -m sim.npu_smi info` asks the server named by TRIMTAB_SIM_URL for its cards, as the real tool asks the driver.
"""

from __future__ import annotations

import ipaddress
import os
import re
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from sim.device import HBM_TOTAL_MIB, IDLE_HBM_MIB

if TYPE_CHECKING:
    from sim.node import Node

Layout = Literal["A", "B"]

URL_VARIABLE = "TRIMTAB_SIM_URL"
VERSION = "24.1.rc2"
TIMEOUT_SECONDS = 10.0
LARGEST_ANSWER_BYTES = 1024 * 1024
NOT_SUPPORTED = -8255 & 0xFF
"""Exit code of the real tool for what a device does not know."""

SERVING_SHARE = 0.92
"""Share of the HBM that the serving engine holds, whatever its load: vLLM takes it all at its start."""
PROCESS = "VLLM::Worker_TP"
FIRST_PID = 41170
# As a board of eight numbers them: not in the order of the cards.
_BUSES = ("C1", "C2", "81", "82", "01", "02", "41", "42")

_USAGE = "Usage: npu-smi <Command|-h|-v>"
_INFO_USAGE = "Usage: npu-smi info <watch|proc|-h|-m|-l|-t type> [Options...]"
_COLUMNS = re.compile("[ptaicmbnu]+")


def info(node: Node, layout: Layout = "B") -> str:
    """What `npu-smi info` prints now: layout B is the 910B's, layout A the 310P's, whose table knows no HBM."""
    return _layout_b(node) if layout == "B" else _layout_a(node)


def used_mib(node: Node, index: int) -> int:
    """HBM that a card holds."""
    # Cards differ by a few MiB, as they do on a real board.
    held = 0 if node.control.down else round(SERVING_SHARE * HBM_TOTAL_MIB) - IDLE_HBM_MIB
    return IDLE_HBM_MIB + held + 7 * index + node.extra_mib(index)


def _layout_b(node: Node) -> str:
    columns = (27, 15, 52)
    thin, thick = _rule("-", columns), _rule("=", columns)
    lines = [
        _rule("-", (sum(columns) + 2,)),
        f"| {f'npu-smi {VERSION}':<32} {f'Version: {VERSION}':<61} |",
        thin,
        "| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|",
        "| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |",
        thick,
    ]
    for index, card in enumerate(node.cards):
        hbm = f"{used_mib(node, index):<5}/ {HBM_TOTAL_MIB}"
        lines += [
            f"| {index:<5} {'910B4':<19} | {'OK':<13} "
            f"| {card.watts:<11.1f} {card.celsius:<17.0f} {'0    / 0':<21}|",
            f"| {0:<25} | {f'0000:{_BUSES[index]}:00.0':<13} "
            f"| {round(100 * card.aicore):<11} {'0    / 0':<17} {hbm:<21}|",
            thick,
        ]
    lines += [
        thin,
        "| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |",
        thick,
    ]
    for index in range(len(node.cards)):
        if node.control.down:
            lines.append(f"| {f'No running processes found in NPU {index}':<94} |")
        else:
            memory = used_mib(node, index) - IDLE_HBM_MIB
            lines.append(f"| {index:<7} {0:<17} | {FIRST_PID + index:<13} | {PROCESS:<24} | {memory:<23} |")
        lines.append(thick)
    return "\n".join(lines) + "\n"


def _layout_a(node: Node) -> str:
    columns = (31, 17, 54)
    thin, thick = _rule("-", columns), _rule("=", columns)
    lines = [
        _rule("-", (sum(columns) + 2,)),
        f"| {f'npu-smi {VERSION}':<48} {f'Version: {VERSION}':<53} |",
        thin,
        "| NPU     Name                  | Health          | Power(W)     Temp(C)           Hugepages-Usage(page) |",
        "| Chip    Device                | Bus-Id          | AICore(%)    Memory-Usage(MB)                        |",
        thick,
    ]
    for index, card in enumerate(node.cards):
        memory = f"{used_mib(node, index):<5}/ {HBM_TOTAL_MIB}"
        lines += [
            f"| {index:<7} {'310P3':<21} | {'OK':<15} | {'NA':<12} {card.celsius:<17.0f} {'0     / 0':<21} |",
            f"| {0:<7} {index:<21} | {f'0000:{_BUSES[index]}:00.0':<15} "
            f"| {round(100 * card.aicore):<12} {memory:<39} |",
            thick if index == len(node.cards) - 1 else thin,
        ]
    return "\n".join(lines) + "\n"


def _rule(of: str, columns: Sequence[int]) -> str:
    return "+" + "+".join(of * width for width in columns) + "+"


def main(arguments: Sequence[str]) -> int:
    """Do what the real tool does with these arguments, on standard output as it does; the exit code."""
    match list(arguments):
        case ["info"]:
            return _print("")
        case ["info", "watch"]:
            return _watch()
        case ["info", "watch", "-s", columns] if _COLUMNS.fullmatch(columns):
            return _watch()
        case ["info", "-t", kind, "-i", npu, *chip] if npu.isdecimal() and _is_chip(chip):
            return _print(f"/{kind}?npu={npu}&chip={chip[1] if chip else 0}")
        case ["-v"] | ["--version"]:
            print(f"npu-smi version: {VERSION}")
            return 0
        case ["-h"] | ["--help"]:
            print(f"{_USAGE}\n\nCommands:\n       info           Show information of the devices")
            return 0
        case ["info", "-h"] | ["info", "--help"]:
            print(_INFO_USAGE)
            return 0
        case ["info", unknown, *_]:
            print(f"Error parameter of {unknown}\n{_INFO_USAGE}")
            return 1
        case [unknown, *_]:
            print(f"Error parameter of {unknown}\n{_USAGE}")
            return 1
        case _:
            print(_USAGE)
            return 1


def _is_chip(arguments: list[str]) -> bool:
    return not arguments or (len(arguments) == 2 and arguments[0] == "-c" and arguments[1].isdecimal())


def _watch() -> int:
    """Print the cards every second, as the real tool does until it is killed; all columns, whichever are named."""
    path = "/watch"
    while True:
        code = _print(path)
        if code != 0:
            return code
        sys.stdout.flush()
        path = "/watch?header=0"
        time.sleep(1.0)


def _print(path: str) -> int:
    url = os.environ.get(URL_VARIABLE, "").rstrip("/")
    if not _on_loopback(url):
        print(
            f"npu-smi of the simulated node: set {URL_VARIABLE} to the address that python -m sim.server prints",
            file=sys.stderr,
        )
        return 1
    # No proxy: the node is on this host.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{url}/sim/npu-smi{path}", timeout=TIMEOUT_SECONDS) as answer:
            text = answer.read(LARGEST_ANSWER_BYTES).decode()
    except (OSError, ValueError) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        print(f"npu-smi of the simulated node: no answer from {url}: {reason}", file=sys.stderr)
        return 1
    sys.stdout.write(text)
    return NOT_SUPPORTED if text.startswith("This device does not support") else 0


def _on_loopback(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        return parts.scheme == "http" and (host == "localhost" or ipaddress.ip_address(host).is_loopback)
    except ValueError:
        return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
