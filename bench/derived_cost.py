"""What the derived figures cost: CPU of each finding over a full history, and of a second of collection.

python -m bench.derived_cost [--chips N] [--engines N] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import random
import time
from collections.abc import Sequence

from collectors.derived import DerivedCollector, all_findings
from collectors.history import History
from collectors.sample import Distribution, Sample, labels

HOURS = 13
NOW = 1_700_000_000.0
BOUNDS = (*(0.001 * 2.0**power for power in range(20)), math.inf)


def full_history(chips: int, engines: int, draw: random.Random) -> History:
    """Half a day of readings: cards every 10 s, engines every second at the end and every 10 s before."""
    history = History()
    start = NOW - HOURS * 3600.0
    for tick in range(HOURS * 360):
        now = start + tick * 10.0
        history.add(_cards(chips, now, draw), "npu_smi")
        history.add(_host(now, draw), "host")
        for second in range(10) if now >= NOW - 1200.0 else (0,):
            history.add(_engines(engines, now + second, start, draw), "vllm")
    return history


def _cards(chips: int, now: float, draw: random.Random) -> list[Sample]:
    samples = []
    for chip in range(chips):
        own = labels(npu=str(chip // 2), chip=str(chip % 2), name="910B")
        for name, value in (
            ("npu_aicore_usage_ratio", draw.uniform(0.6, 0.95)),
            ("npu_aicore_frequency_hertz", draw.choice((1.65e9, 1.8e9))),
            ("npu_temperature_celsius", draw.gauss(60.0, 2.0)),
            ("npu_hbm_used_bytes", 5e10 + (now - NOW) * 1e4 + draw.gauss(0.0, 1e6)),
        ):
            samples.append(Sample(name, value, now, own))
        device = labels(device=str(chip))
        samples.append(Sample("npu_allocator_reserved_bytes", 4.5e10 + draw.gauss(0.0, 1e6), now, device))
        samples.append(Sample("npu_allocator_allocated_bytes", 4e10 + draw.gauss(0.0, 1e6), now, device))
    error = labels(device="0", source="engine")
    samples.append(Sample("npu_out_of_memory_reserved_bytes", 5.8e10, now, error))
    samples.append(Sample("npu_out_of_memory_allocated_bytes", 4e10, now, error))
    return samples


def _host(now: float, draw: random.Random) -> list[Sample]:
    return [
        Sample("trimtab_host_memory_available_bytes", 5e11 + draw.gauss(0.0, 1e9), now),
        Sample("trimtab_engine_process_resident_bytes", 2e10 + (now - NOW) * 1e4 + draw.gauss(0.0, 1e7), now),
    ]


def _engines(engines: int, now: float, start: float, draw: random.Random) -> list[Sample]:
    samples = []
    count = round(now - start) * 8.0
    for engine in range(engines):
        own = labels(engine=str(engine), model="m")
        counts = tuple(count * (place + 1) / len(BOUNDS) for place in range(len(BOUNDS)))
        for name, mean in (("ttft", 0.3), ("e2e", 6.0), ("queue", 0.5), ("step", 500.0)):
            metric = "trimtab_engine_step_tokens" if name == "step" else f"trimtab_engine_{name}_seconds"
            total = count * mean + draw.uniform(0.0, 1.0)
            samples.append(Sample(metric, Distribution(BOUNDS, counts, total, count), now, own))
        for name, value in (
            ("trimtab_engine_requests_running", float(draw.randint(1, 64))),
            ("trimtab_engine_kv_cache_usage_ratio", draw.random()),
            ("trimtab_engine_kv_cache_blocks", 4000.0),
            ("trimtab_engine_kv_cache_block_tokens", 128.0),
            ("trimtab_engine_preemptions_total", count // 100.0),
            ("trimtab_engine_generation_tokens_total", count * 100.0),
            ("trimtab_engine_prefix_cache_queried_tokens_total", count * 500.0),
            ("trimtab_engine_prefix_cache_hit_tokens_total", count * 200.0),
        ):
            samples.append(Sample(name, value, now, own))
    return samples


def measure(history: History, interval_seconds: float = 10.0) -> dict[str, float]:
    """CPU milliseconds of each finding (the second run, warm), and of all per second of collection."""
    figures: dict[str, float] = {}
    per_second = 0.0
    for finding in all_findings():
        for _ in range(2):
            began = time.process_time()
            samples = [
                sample
                for found in finding.derive(history, NOW)
                for sample in ([found] if isinstance(found, Sample) else found())
            ]
            took = (time.process_time() - began) * 1e3
        figures[finding.name] = took
        figures[f"{finding.name}_samples"] = len(samples)
        per_second += took / max(finding.every_seconds, interval_seconds)
    figures["per_second"] = per_second
    figures["series"] = len(history)
    collector = DerivedCollector(history, interval_seconds=interval_seconds)
    began = time.process_time()
    ticks = 60
    for tick in range(ticks):
        asyncio.run(collector.collect(NOW + tick * interval_seconds))
    figures["collected_per_second"] = (time.process_time() - began) * 1e3 / (ticks * interval_seconds)
    return figures


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table or, with --json, the figures."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--chips", type=int, default=64)
    options.add_argument("--engines", type=int, default=2)
    options.add_argument("--json", action="store_true")
    chosen = options.parse_args(arguments)
    found = measure(full_history(chosen.chips, chosen.engines, random.Random(1)))
    if chosen.json:
        print(json.dumps(found))
        return 0
    print(
        f"{chosen.chips} chips, {chosen.engines} engines, {found['series']:.0f} series, {HOURS} h of readings"
    )
    for finding in all_findings():
        print(
            f"  {finding.name:<16}{found[finding.name]:8.2f} ms  {found[finding.name + '_samples']:5.0f} samples"
            f"  every {max(finding.every_seconds, 10.0):.0f} s"
        )
    print(f"  all, per second of collection: {found['per_second']:.2f} ms of CPU by the sum,")
    print(f"  {found['collected_per_second']:.2f} ms in ten minutes of the collector")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
