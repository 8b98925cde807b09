"""A metrics page of the size and shape that a vLLM server serves, with figures of its own."""

from __future__ import annotations

import random
from collections.abc import Iterator

_LATENCY = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680)
_FIRST_TOKEN = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75),
    *(1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560),
)
_GAP = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
_TOKENS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)
_STEP = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
_FEW = (1, 2, 5, 10, 20)

HISTOGRAMS = {
    "request_prompt_tokens": (_TOKENS, 300.0),
    "request_generation_tokens": (_TOKENS, 60.0),
    "iteration_tokens_total": (_STEP, 90.0),
    "request_max_num_generation_tokens": (_TOKENS, 60.0),
    "request_params_n": (_FEW, 1.0),
    "request_params_max_tokens": (_TOKENS, 128.0),
    "time_to_first_token_seconds": (_FIRST_TOKEN, 0.2),
    "inter_token_latency_seconds": (_GAP, 0.03),
    "request_time_per_output_token_seconds": (_GAP, 0.03),
    "e2e_request_latency_seconds": (_LATENCY, 2.0),
    "request_queue_time_seconds": (_LATENCY, 0.1),
    "request_inference_time_seconds": (_LATENCY, 2.0),
    "request_prefill_time_seconds": (_LATENCY, 0.2),
    "request_decode_time_seconds": (_LATENCY, 1.8),
    "request_num_preemptions": ((0, *_FEW, 50), 0.1),
    "request_prefill_kv_computed_tokens": (_TOKENS, 250.0),
}
GAUGES = {"num_requests_running": 12.0, "num_requests_waiting": 3.0, "kv_cache_usage_perc": 0.42}
COUNTERS = (
    "estimated_flops_per_gpu",
    "estimated_read_bytes_per_gpu",
    "estimated_write_bytes_per_gpu",
    "prefix_cache_queries",
    "prefix_cache_hits",
    "external_prefix_cache_queries",
    "external_prefix_cache_hits",
    "mm_cache_queries",
    "mm_cache_hits",
    "num_preemptions",
    "prompt_tokens",
    "prompt_tokens_cached",
    "generation_tokens",
)
BY_LABEL = {
    "request_success": ("finished_reason", ("stop", "length", "abort", "error", "repetition")),
    "prompt_tokens_by_source": ("source", ("local_compute", "local_cache_hit", "external_kv_transfer")),
    "prompt_tokens_cached_by_source": ("source", ("device", "host", "p2p", "disk", "external")),
    "admission_rejections": ("reason", ("max_num_queued_reqs", "max_num_queued_tokens")),
}


def vllm_page(seed: int = 1, engines: int = 1, prefix: str = "vllm:", model: str = "sample-7b") -> str:
    """The page of one server with so many engines behind it; the same seed gives the same page."""
    draw = random.Random(seed)
    lines = list(_process(draw))
    for name, value in GAUGES.items():
        lines += _family(prefix + name, "gauge", [(_own(e, model), value + e) for e in range(engines)])
    reasons = [
        (f'{_own(e, model)},reason="{reason}"', value)
        for e in range(engines)
        for reason, value in (("capacity", 2.0), ("deferred", 1.0))
    ]
    lines += _family(prefix + "num_requests_waiting_by_reason", "gauge", reasons)
    for name in COUNTERS:
        lines += _counter(prefix + name, [_own(e, model) for e in range(engines)], draw)
    for name, (label, values) in BY_LABEL.items():
        blocks = [f'{_own(e, model)},{label}="{value}"' for e in range(engines) for value in values]
        lines += _counter(prefix + name, blocks, draw)
    for name, (bounds, mean) in HISTOGRAMS.items():
        lines += _histogram(prefix + name, bounds, mean, [_own(e, model) for e in range(engines)], draw)
    config = 'block_size="128",cache_dtype="auto",enable_prefix_caching="True",num_cpu_blocks="None"'
    blocks = [f'{config},engine="{e}",num_gpu_blocks="4096"' for e in range(engines)]
    lines += _family(prefix + "cache_config_info", "gauge", [(block, 1.0) for block in blocks])
    lines += list(_http(draw))
    return "\n".join(lines) + "\n"


def _own(engine: int, model: str) -> str:
    return f'engine="{engine}",model_name="{model}"'


def _head(name: str, kind: str) -> list[str]:
    return [f"# HELP {name} What {name} counts.", f"# TYPE {name} {kind}"]


def _family(name: str, kind: str, samples: list[tuple[str, float]]) -> list[str]:
    return _head(name, kind) + [f"{name}{{{block}}} {value}" for block, value in samples]


def _counter(name: str, blocks: list[str], draw: random.Random) -> list[str]:
    values = [(block, float(draw.randrange(1, 10**6))) for block in blocks]
    created = [(block, 1.7e9 + draw.random()) for block in blocks]
    return _family(f"{name}_total", "counter", values) + _family(f"{name}_created", "gauge", created)


def _histogram(
    name: str, bounds: tuple[float, ...], mean: float, blocks: list[str], draw: random.Random
) -> list[str]:
    lines = _head(name, "histogram")
    for block in blocks:
        values = [draw.expovariate(1.0 / mean) for _ in range(200)]
        for bound in bounds:
            count = sum(value <= bound for value in values)
            lines.append(f'{name}_bucket{{{block},le="{float(bound)}"}} {float(count)}')
        lines.append(f'{name}_bucket{{{block},le="+Inf"}} {float(len(values))}')
        lines += [f"{name}_count{{{block}}} {float(len(values))}", f"{name}_sum{{{block}}} {sum(values)}"]
    return lines + _family(f"{name}_created", "gauge", [(block, 1.7e9 + draw.random()) for block in blocks])


def _process(draw: random.Random) -> Iterator[str]:
    for name in ("objects_collected", "objects_uncollectable", "collections"):
        yield from _head(f"python_gc_{name}_total", "counter")
        for generation in range(3):
            yield f'python_gc_{name}_total{{generation="{generation}"}} {float(draw.randrange(10**4))}'
    yield from _family("python_info", "gauge", [('implementation="CPython",major="3",minor="11"', 1.0)])
    for name, value in (("resident_memory_bytes", 1.5e9), ("start_time_seconds", 1.7e9), ("open_fds", 64.0)):
        yield from _head(f"process_{name}", "gauge")
        yield f"process_{name} {value}"


def _http(draw: random.Random) -> Iterator[str]:
    """What the web framework's own instrumentation adds."""
    handler = 'handler="/v1/completions",method="POST"'
    yield from _counter("http_requests", [f'{handler},status="2xx"'], draw)
    yield from _head("http_request_size_bytes", "summary")
    yield f'http_request_size_bytes_count{{handler="/v1/completions"}} {float(draw.randrange(10**4))}'
    yield f'http_request_size_bytes_sum{{handler="/v1/completions"}} {float(draw.randrange(10**6))}'
    yield from _histogram("http_request_duration_seconds", (0.1, 0.5, 1), 0.4, [handler], draw)
    yield from _histogram("http_request_duration_highr_seconds", _LATENCY, 0.4, [""], draw)
