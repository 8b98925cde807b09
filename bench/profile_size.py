"""What analysing a large profile takes: time and memory for an op_summary of a given size, made with a seed.

python -m bench.profile_size [--megabytes N] [--seed N] [--json]
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

MEGABYTE = 1_000_000
LIMIT_BYTES = 400 * MEGABYTE
"""An analysis takes less memory than this, however large the profile."""

HEADINGS = (
    "Device_id,Model ID,Task ID,Stream ID,Op Name,OP Type,OP State,Task Type,Task Start Time(us),Task Duration(us),"
    "Task Wait Time(us),Block Num,Mix Block Num,HF32 Eligible,Input Shapes,Input Data Types,Input Formats,"
    "Output Shapes,Output Data Types,Output Formats,Context ID,aicore_time(us),aic_total_cycles,aic_mac_time(us),"
    "aic_mac_ratio,aic_scalar_time(us),aic_scalar_ratio,aic_mte1_time(us),aic_mte1_ratio,aic_mte2_time(us),"
    "aic_mte2_ratio,aic_fixpipe_time(us),aic_fixpipe_ratio,aic_icache_miss_rate,aiv_time(us),aiv_total_cycles,"
    "aiv_vec_time(us),aiv_vec_ratio,aiv_scalar_time(us),aiv_scalar_ratio,aiv_mte2_time(us),aiv_mte2_ratio,"
    "aiv_mte3_time(us),aiv_mte3_ratio,aiv_icache_miss_rate,cube_utilization(%)"
)
LAYER = (
    ("AddRmsNorm", "AI_VECTOR_CORE", "{t},5120;{t},5120;5120", "{t},5120;{t},1;{t},5120", 9.0),
    ("MatMulV2", "AI_CORE", "{t},5120;5120,7168", "{t},7168", 61.0),
    ("RotaryMul", "AI_VECTOR_CORE", "{t},40,128;{t},1,128;{t},1,128", "{t},40,128", 7.0),
    ("FusedInferAttentionScore", "MIX_AIC", "{t},40,128;2048,128,1024;2048,128,1024", "{t},40,128", 88.0),
    ("MatMulV2", "AI_CORE", "{t},5120;5120,5120", "{t},5120", 47.0),
    ("hcom_allReduce_", "COMMUNICATION", "N/A", "N/A", 95.0),
    ("AddRmsNorm", "AI_VECTOR_CORE", "{t},5120;{t},5120;5120", "{t},5120;{t},1;{t},5120", 9.0),
    ("MatMulV2", "AI_CORE", "{t},5120;5120,27648", "{t},27648", 140.0),
    ("SwiGlu", "AI_VECTOR_CORE", "{t},27648", "{t},13824", 11.0),
    ("MatMulV2", "AI_CORE", "{t},13824;13824,5120", "{t},5120", 82.0),
    ("hcom_allReduce_", "COMMUNICATION", "N/A", "N/A", 95.0),
)
"""A decoder layer: operator type, core, input and output shapes for `t` tokens, usual microseconds."""


def op_summary(seed: int) -> Iterator[str]:
    """Lines of an endless op_summary table, its heading first."""
    random_ = random.Random(seed)
    yield HEADINGS + "\n"
    at = 1_790_000_000_000_000_000
    number = 0
    while True:
        tokens = random_.choice((16, 64, 256, 2048))
        for type_, core, inputs, outputs, usual in LAYER:
            duration = round(usual * random_.uniform(0.9, 1.2), 3)
            gap = round(random_.expovariate(1 / 6), 3)
            at += round(gap * 1000)
            yield _row(number, at, type_, core, inputs, outputs, tokens, duration, gap)
            at += round(duration * 1000)
            number += 1


def _row(
    number: int,
    at: int,
    type_: str,
    core: str,
    inputs: str,
    outputs: str,
    tokens: int,
    duration: float,
    gap: float,
) -> str:
    start = f"{at // 1000}.{at % 1000:03d}\t"
    if core == "COMMUNICATION":
        row = f"0,4294967295,N/A,N/A,{type_}_113_{number}_1,{type_},N/A,{core},{start},{duration},{gap},0,"
        return row + ",".join(["N/A"] * (HEADINGS.count(",") + 1 - 12)) + "\n"
    cube = "0.71,18.2,0.11,30.5,0.42,44.1,0.93,3.2,0.05,0.001" if core != "AI_VECTOR_CORE" else "0" + ",0" * 9
    vector = "5.1,3301202,1.7,0.33,0.8,0.15,4.4,0.86,2.9,0.57,0.02" if core != "AI_CORE" else "0" + ",0" * 10
    return (
        f"0,4294967295,{number % 65536},2,aclnn{type_}_{type_}_{number},{type_},dynamic,{core},{start},{duration},"
        f'{gap},24,0,NO,"""{inputs.format(t=tokens)}""",DT_BF16;DT_BF16,ND;ND,"""{outputs.format(t=tokens)}""",'
        f"DT_BF16,ND,N/A,{duration},1801202,{duration * 0.7:.3f},{cube},{vector},61.3\n"
    )


def write_op_summary(path: Path, size: int, seed: int) -> int:
    """Write a table of about `size` bytes; returns how many tasks it has."""
    written = rows = 0
    with path.open("w") as file:
        for line in op_summary(seed):
            file.write(line)
            rows += 1
            written += len(line)
            if written >= size:
                break
    return rows - 1


# The high-water mark is the process's own: a parent's counter, as getrusage has it, may be its parent's before exec.
CHILD = """
import sys
from daemon.cli import run
code = run(sys.argv[1:])
text = open("/proc/self/status").read()
print(text.partition("VmHWM:")[2].split()[0], file=sys.stderr)
sys.exit(code)
"""


def measure(folder: Path) -> dict[str, Any]:
    """Analyse a folder in a process of its own: seconds, peak resident bytes, and the analysis itself."""
    began = time.perf_counter()
    done = subprocess.run(  # noqa: S603 - this interpreter and our own program
        [sys.executable, "-c", CHILD, "analyze", "msprof", str(folder), "--format", "json"],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).resolve().parent.parent,
    )
    taken = time.perf_counter() - began
    if done.returncode:
        raise RuntimeError(f"the analysis ended with code {done.returncode}: {done.stderr.strip()[-500:]}")
    return {
        "seconds": taken,
        "peak_rss_bytes": int(done.stderr.split()[-1]) * 1024,
        "analysis": json.loads(done.stdout),
    }


def run(megabytes: float, seed: int) -> dict[str, Any]:
    """Make a table of that size in a temporary folder, analyse it, and return the figures."""
    with tempfile.TemporaryDirectory(prefix="trimtab-profile-") as folder:
        path = Path(folder) / "op_summary_20260101000000.csv"
        tasks = write_op_summary(path, round(megabytes * MEGABYTE), seed)
        size = path.stat().st_size
        found = measure(Path(folder))
    profile = found["analysis"]["profiles"][0]
    return {
        "file_bytes": size,
        "tasks": tasks,
        "tasks_read": profile["compute_tasks"],
        "operator_types": len(profile["operators"]),
        "findings": len(found["analysis"]["findings"]),
        "seconds": found["seconds"],
        "peak_rss_bytes": found["peak_rss_bytes"],
        "limit_bytes": LIMIT_BYTES,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures; code 1 if the analysis took more memory than the limit."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--megabytes", type=float, default=500.0)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--json", action="store_true")
    chosen = options.parse_args(arguments)
    found = run(chosen.megabytes, chosen.seed)
    if chosen.json:
        print(json.dumps(found))
    else:
        print(
            f"op_summary of {found['file_bytes'] / MEGABYTE:.1f} MB, {found['tasks']} tasks: "
            f"{found['seconds']:.1f} s, peak RSS {found['peak_rss_bytes'] / MEGABYTE:.0f} MB "
            f"(limit {LIMIT_BYTES / MEGABYTE:.0f} MB), {found['findings']} findings"
        )
    return 0 if found["peak_rss_bytes"] < LIMIT_BYTES else 1


if __name__ == "__main__":
    raise SystemExit(main())
