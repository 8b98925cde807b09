"""A large node to be watched: its sources as files and pages, served by a process of its own.

`python -m bench.node_stand FOLDER CHIPS ENGINES` writes an `npu-smi` into FOLDER and prints the engines' addresses.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from bench.vllm_page import vllm_page
from collectors.npu_exporter.names import ROWS

HBM_MIB = 65536
_WIDTHS = (27, 15, 52)


def npu_smi_table(chips: int) -> str:
    """`npu-smi info` of a node with so many 910B chips, each held by one process (layout B)."""
    thin, thick = (f"+{'+'.join(of * width for width in _WIDTHS)}+" for of in "-=")
    lines = [
        f"+{'-' * (sum(_WIDTHS) + 2)}+",
        f"| {'npu-smi 24.1.rc2':<32} {'Version: 24.1.rc2':<61} |",
        thin,
        "| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|",
        "| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |",
        thick,
    ]
    for npu in range(chips):
        hbm = f"{58000 + npu:<5}/ {HBM_MIB}"
        lines += [
            f"| {npu:<5} {'910B3':<19} | {'OK':<13} | {250.5 + npu:<11.1f} {50 + npu % 20:<17} {'0    / 0':<21}|",
            f"| {0:<25} | {f'0000:{npu:02X}:00.0':<13} | {40 + npu % 50:<11} {'0    / 0':<17} {hbm:<21}|",
            thick,
        ]
    lines += [
        thin,
        "| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |",
        thick,
    ]
    for npu in range(chips):
        lines += [
            f"| {npu:<7} {0:<17} | {40000 + npu:<13} | {'VLLM::Worker_TP':<24} | {54600 + npu:<23} |",
            thick,
        ]
    return "\n".join(lines) + "\n"


def engine_page(seed: int, samples: int = 600) -> str:
    """An engine's page of at least so many samples: as many ranks as that takes."""
    ranks = 1
    while (page := vllm_page(seed, ranks)).count("\n") - page.count("# ") < samples:
        ranks += 1
    return page


def npu_exporter_page(chips: int, stamp: float) -> str:
    """npu-exporter's page of so many chips, read at `stamp` (Unix seconds): the figures that any chip has.

    All but the states change from second to second.
    """
    place = 'namespace="serving",pod_name="engine-0",container_name="engine"'
    lines: list[str] = []
    for name, is_state in {row.theirs: row.flag for row in ROWS if "{" not in row.theirs}.items():
        lines += [f"# HELP {name} A figure.", f"# TYPE {name} gauge"]
        for chip in range(chips):
            own = f'id="{chip}",model_name="910B3",vdie_id="VDIE{chip}",pcie_bus_info="0000:{chip:02X}:00.0"'
            value = 1 if is_state else 1 + (chip + int(stamp)) % 90
            lines.append(f"{name}{{{own},{place}}} {value} {1000 * stamp:.0f}")
    return "\n".join(lines) + "\n"


def watch_round(chips: int) -> str:
    """One round of `npu-smi info watch`."""
    names = ("NpuID(Idx)", "ChipId(Idx)", "Pwr(W)", "Temp(C)", "AI Core(%)", "AI Cpu(%)", "Ctrl Cpu(%)")
    lines = ["".join(f"{name:<14}" for name in (*names, "Memory(%)", "Memory BW(%)", "NPU Util(%)"))]
    for npu in range(chips):
        cells = (npu, 0, 250.5 + npu, 50 + npu % 20, 40 + npu % 50, 0, 3, 88, 35, 60)
        lines.append("".join(f"{cell!s:<14}" for cell in cells))
    return "\n".join(lines) + "\n"


def write_tool(folder: Path, chips: int) -> Path:
    """An `npu-smi` that prints the table, watches, and refuses everything else; returns its path."""
    (folder / "table").write_text(npu_smi_table(chips))
    (folder / "round").write_text(watch_round(chips))
    tool = folder / "npu-smi"
    tool.write_text(
        f"""#!/bin/sh
case "$*" in
info) exec cat {folder}/table ;;
"info watch"*) while cat {folder}/round; do sleep 1; done ;;
*) echo "Error parameter of $2"; exit 1 ;;
esac
"""
    )
    tool.chmod(0o755)
    return tool


def write_log(folder: Path, lines: int = 2000) -> Path:
    """A log of an engine that has nothing to complain of; returns its path."""
    path = folder / "engine.log"
    path.write_text(
        "".join(
            f"(EngineCore pid=41) INFO 11-29 08:{n // 60 % 60:02d}:{n % 60:02d} [loggers.py:259] Engine 000: Avg "
            f"prompt throughput: {n}.0 tokens/s, Running: {n % 64} reqs, GPU KV cache usage: 41.0%\n"
            for n in range(lines)
        )
    )
    return path


def serve(page: Callable[[], str]) -> str:
    """Serve a page, made anew each time, at every path of a free loopback port; returns the address."""

    class Answer(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = page().encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing: a scrape a second is no news."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def main(arguments: list[str]) -> int:
    """Serve until standard input ends."""
    folder, chips, engines = Path(arguments[0]), int(arguments[1]), int(arguments[2])
    tool = write_tool(folder, chips)
    pages = [engine_page(seed) for seed in range(1, engines + 1)]
    there = {
        "npu_smi": str(tool),
        "engines": [serve(partial(str, page)) for page in pages],
        "npu_exporter": serve(lambda: npu_exporter_page(chips, time.time())) + "/metrics",
        "log": str(write_log(folder)),
    }
    print(json.dumps(there), flush=True)
    sys.stdin.read()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
