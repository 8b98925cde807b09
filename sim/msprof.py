"""`msprof` of the simulated node: the tool's two ways to record and its export, with the files the real one leaves.

`python -m sim.msprof --output=DIR --sys-period=2 --sys-devices=0` records by itself; `--dynamic=on --pid=N` prompts.
What it writes is a decode step of a dense model told over and over, the same for every seed of the node.
"""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

STEP = (
    # operator, core, median us, mac share, mte2 share, vec share, shapes
    ("RmsNorm", "AI_VECTOR_CORE", 9.0, 0.0, 0.41, 0.55, '"16,4096;4096"'),
    ("MatMulV2", "AI_CORE", 62.0, 0.48, 0.83, 0.0, '"16,4096;4096,6144"'),
    ("PagedAttention", "MIX_AIC", 88.0, 0.22, 0.91, 0.19, '"16,32,128;2048,128,8,128"'),
    ("MatMulV2", "AI_CORE", 41.0, 0.47, 0.84, 0.0, '"16,4096;4096,4096"'),
    ("hcom_allReduce_", "COMMUNICATION", 54.0, 0.0, 0.0, 0.0, '"16,4096"'),
    ("AddRmsNorm", "AI_VECTOR_CORE", 11.0, 0.0, 0.44, 0.52, '"16,4096;16,4096;4096"'),
    ("MatMulV2", "AI_CORE", 118.0, 0.51, 0.86, 0.0, '"16,4096;4096,22016"'),
    ("SwiGlu", "AI_VECTOR_CORE", 13.0, 0.0, 0.5, 0.58, '"16,22016"'),
    ("MatMulV2", "AI_CORE", 71.0, 0.5, 0.85, 0.0, '"16,11008;11008,4096"'),
)
HEADER = (
    *(
        "Device_id",
        "Model ID",
        "Task ID",
        "Stream ID",
        "Op Name",
        "OP Type",
        "Task Type",
        "Task Start Time(us)",
    ),
    *("Task Duration(us)", "Task Wait Time(us)", "Block Num", "Input Shapes", "Output Shapes"),
    *("aicore_time(us)", "aic_mac_ratio", "aic_mte2_ratio", "aiv_vec_ratio"),
)
LAYERS = 4
GAP_US = 2.5
STEPS_A_SECOND = 30
MOST_STEPS = 300
"""A recording of more seconds than these steps last is cut, as the real tool cuts its slices."""


def rows(device: int, seconds: float) -> Iterator[tuple[object, ...]]:
    """The operators of a recording in the order they ran, as `op_summary` has them."""
    rng = np.random.default_rng([device, 7])
    at, task = 1_000_000.0, 0
    for step in range(min(MOST_STEPS, max(1, round(STEPS_A_SECOND * seconds)))):
        for layer in range(LAYERS):
            for kind, core, median, mac, mte2, vec, shapes in STEP:
                took = median * float(rng.lognormal(0.0, 0.05))
                cores = core != "COMMUNICATION"
                ratios = tuple(f"{ratio:.3f}" if cores else "N/A" for ratio in (mac, mte2, vec))
                name = f"layers_{layer}_{kind}_{task}"
                yield (
                    *(
                        device,
                        4294967295,
                        task,
                        3,
                        name,
                        kind,
                        core,
                        f"{at:.3f}\t",
                        f"{took:.3f}",
                        f"{GAP_US:.3f}",
                    ),
                    *(24, shapes, shapes.split(";")[0].rstrip('"') + '"', f"{took if cores else 0:.3f}"),
                    *ratios,
                )
                at += took + GAP_US
                task += 1
        at += 1e6 / STEPS_A_SECOND / 8 * (1 + step % 2)


def write(output: Path, devices: Sequence[int], seconds: float) -> None:
    """One `PROF_*` folder a device, exported."""
    for device in devices:
        place = output / f"PROF_{device + 1:06d}_SIM" / "mindstudio_profiler_output"
        place.mkdir(parents=True)
        with (place / "op_summary_1.csv").open("w", newline="") as file:
            table = csv.writer(file, quoting=csv.QUOTE_MINIMAL)
            table.writerow(HEADER)
            table.writerows(rows(device, seconds))


def options(arguments: Iterable[str]) -> Mapping[str, str]:
    """`--name=value` pairs; the real tool refuses anything else, and so does this."""
    found: dict[str, str] = {}
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if not name.startswith("--") or not equals:
            raise SystemExit(f"[ERROR] Argument invalid : {argument}")
        found[name.removeprefix("--")] = value
    return found


def prompt(output: Path, device: int) -> int:
    """The prompt of the dynamic way: `start`, `stop`, `quit`."""
    began: float | None = None
    for line in sys.stdin:
        word = line.strip()
        if word == "start":
            began = time.monotonic()
        elif word == "stop" and began is not None:
            write(output, [device], time.monotonic() - began)
            began = None
        elif word == "quit":
            return 0
        else:
            print(f"[ERROR] Invalid command: {word}", flush=True)
    return 0


def main(arguments: Sequence[str]) -> int:
    """Record as asked; the exit code is 0, or 1 for what cannot be done."""
    asked = options(arguments)
    if "output" not in asked:
        print("[ERROR] --output is required")
        return 1
    output = Path(asked["output"])
    output.mkdir(parents=True, exist_ok=True)
    if asked.get("dynamic") == "on":
        return prompt(output, 0)
    if "sys-period" in asked:
        period = int(asked["sys-period"])
        time.sleep(period)
        write(output, [int(device) for device in asked["sys-devices"].split(",")], period)
        return 0
    return 0 if asked.get("export") == "on" else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
