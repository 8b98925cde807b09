"""What the engine plugin costs the engine: each scheduler step, each statistics record, off and on side by side.

Run as `python bench/plugin_overhead.py [--json]`; it needs neither vLLM nor anything else installed. The real
step wrapper and the real stat logger run over a scheduler and statistics of vLLM's shape that do nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
import types
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter_ns
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "engine_plugin"))

from trimtab_plugin.control import Controller
from trimtab_plugin.ring import Ring

CALLS = 20_000
REPEATS = 9
STEP_LIMIT = 1.5
CAP_LIMIT = 3.0
CAP_LIMIT_PER_REQUEST = 0.1
RECORD_LIMIT = 1.5
GAPS_PER_RECORD = 32


@dataclass(frozen=True)
class Cost:
    """One line of the table, in microseconds a call; `limit` is None where none was set."""

    what: str
    off: float
    on: float
    added: float
    limit: float | None

    @property
    def within(self) -> bool:
        return self.limit is None or self.added <= self.limit


class Request:
    """A running request in vLLM's shape: decoding, one token a step."""

    def __init__(self) -> None:
        self.is_prefill_chunk = False
        self.spec_token_ids: list[int] = []


class IdleScheduler:
    """vLLM's scheduler attributes around a `schedule()` that does nothing; `ratchet` is 0.30 and before."""

    def __init__(self, running: int, ratchet: bool) -> None:
        self.scheduler_config = types.SimpleNamespace(
            enable_chunked_prefill=True, long_prefill_token_threshold=0, watermark=0.0
        )
        self.kv_cache_manager = types.SimpleNamespace(watermark_blocks=0)
        self.kv_cache_config = types.SimpleNamespace(num_blocks=1000)
        self.max_num_scheduled_tokens = 8192
        self.max_num_running_reqs = 512
        if not ratchet:
            self.max_num_active_reqs = 512
        self.max_model_len = 32768
        self.num_spec_tokens = 0
        self.running = [Request() for _ in range(running)]

    def schedule(self, throttle_prefills: bool = False) -> None:
        return None


def best(call: Callable[[], object], calls: int, repeats: int) -> float:
    """Return the microseconds of one call: the lowest mean of `repeats` runs, the least disturbed one."""
    runs = range(calls)
    means = []
    for _ in range(repeats):
        begin = perf_counter_ns()
        for _ in runs:
            call()
        means.append((perf_counter_ns() - begin) / calls / 1000)
    return min(means)


def step_cost(
    what: str, values: dict[str, float], running: int, limit: float, calls: int, repeats: int, ratchet: bool
) -> Cost:
    """Measure `schedule()` as vLLM calls it, without and with what `values` under a lease need each step."""
    scheduler = IdleScheduler(running, ratchet)
    off = best(lambda: scheduler.schedule(False), calls, repeats)
    controller = Controller(scheduler)
    answer = controller.call(
        {"op": "knobs", "values": values, "if_epoch": 0, "lease_seconds": 3600.0, "expires": float("inf")}
    )
    if answer.get("status") not in ("applied", "draining"):
        raise RuntimeError(f"the wrapper is not on: {answer}")
    on = best(lambda: scheduler.schedule(False), calls, repeats)
    return Cost(what, off, on, on - off, limit)


def record_costs(calls: int, repeats: int) -> list[Cost]:
    """Measure the stat logger's `record()`, and what turning its notes into figures costs the reader."""
    loggers = types.ModuleType("vllm.v1.metrics.loggers")
    loggers.StatLoggerBase = object  # type: ignore[attr-defined]
    names = ("vllm", "vllm.v1", "vllm.v1.metrics", "vllm.v1.metrics.loggers")
    before = {name: sys.modules.get(name) for name in names}
    sys.modules.update({name: types.ModuleType(name) for name in names[:-1]} | {names[-1]: loggers})
    try:
        from trimtab_plugin import stats as stats_module
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module

    finished = types.SimpleNamespace(
        e2e_latency=1.0,
        decode_time=0.8,
        prefill_time=0.1,
        queued_time=0.1,
        num_prompt_tokens=512,
        num_generation_tokens=40,
        num_cached_tokens=0,
        num_preemptions=0,
        finish_reason="length",
    )
    iteration = types.SimpleNamespace(
        iteration_timestamp=1000.0,
        time_to_first_tokens_iter=[],
        inter_token_latencies_iter=[0.02] * GAPS_PER_RECORD,
        finished_requests=[finished],
    )

    def logger(off: bool) -> Callable[[], Any]:
        made = stats_module.RingLogger(None)
        made._record = None if off else ring.record
        return lambda: made.record(None, iteration, None, 0)

    ring = Ring()
    off = best(logger(off=True), calls, repeats)
    chunk = 2000  # fewer than the ring keeps before it must work them off itself
    on = best_with_rest(
        logger(off=False), lambda: ring.flush(float("inf")), chunk, repeats * max(1, calls // chunk)
    )
    begin = perf_counter_ns()
    for _ in range(chunk):
        ring.record(iteration)
    ring.flush(float("inf"))
    read = (perf_counter_ns() - begin) / chunk / 1000
    return [
        Cost(f"record, {GAPS_PER_RECORD} running", off, on, on - off, RECORD_LIMIT),
        Cost(f"the reader, a record of {GAPS_PER_RECORD} gaps and 1 finish", 0.0, read, read, None),
    ]


def best_with_rest(call: Callable[[], object], rest: Callable[[], object], calls: int, repeats: int) -> float:
    """Like `best`, with `rest` called untimed after each run."""
    means = []
    for _ in range(repeats):
        means.append(best(call, calls, 1))
        rest()
    return min(means)


def measure(calls: int = CALLS, repeats: int = REPEATS) -> list[Cost]:
    """Measure everything; about 10 s at the default sizes."""
    costs = []
    for running in (0, 32, 256):
        what = f"step, lease, {running} running"
        costs.append(step_cost(what, {"batch_max_tokens": 4096}, running, STEP_LIMIT, calls, repeats, False))
    what = "step, lease and lowered running cap (<= 0.30), 32 running"
    costs.append(step_cost(what, {"max_num_seqs": 64}, 32, STEP_LIMIT, calls, repeats, True))
    for running in (0, 8, 32, 128, 256):
        limit = CAP_LIMIT + CAP_LIMIT_PER_REQUEST * running
        what = f"step, prefill cap, {running} running"
        costs.append(step_cost(what, {"max_prefill_tokens": 512}, running, limit, calls, repeats, False))
    return costs + record_costs(calls, repeats)


def main(argv: list[str] | None = None) -> int:
    """Print the table or JSON; the exit code is 1 when a limit is broken."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments = parser.parse_args(argv)
    costs = measure()
    good = all(cost.within for cost in costs)
    if arguments.json:
        print(
            json.dumps(
                {"within": good, "costs": [{**asdict(c), "within": c.within} for c in costs]}, indent=1
            )
        )
        return 0 if good else 1
    print(f"{'microseconds a call':<58} {'off':>7} {'on':>7} {'added':>7} {'limit':>7}")
    for cost in costs:
        limit = "" if cost.limit is None else f"{cost.limit:.1f}"
        mark = "" if cost.within else "  OVER"
        print(f"{cost.what:<58} {cost.off:7.2f} {cost.on:7.2f} {cost.added:7.2f} {limit:>7}{mark}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
