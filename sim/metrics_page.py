"""The simulated engine's `/metrics` page: vLLM 0.32's names, labels and bucket bounds.

Counters and the two histograms of steps are the engine's own sums. The histograms of requests are built here from what
finished since the last look, so a page costs the same however long the engine has lived.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from prometheus_client.utils import floatToGoString

from sim.engine import ITERATION_BOUNDS, ITL_BOUNDS, Engine
from sim.physics import MAX_MODEL_LEN, Physics

MODEL_NAME = "simulated-235b-int4"

_SHORT = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
    160.0, 640.0, 2560.0,
)  # fmt: skip
_LONG = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0,
    1920.0, 7680.0,
)  # fmt: skip
# vLLM's steps of 1, 2 and 5 end at the model's longest context.
_LENGTHS = tuple(n * 10.0**e for e in range(4) for n in (1, 2, 5) if n * 10**e <= MAX_MODEL_LEN)
_PREEMPTIONS = (1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0)
_COPIES = (1.0, 2.0, 5.0, 10.0, 20.0)

Bounds = tuple[float, ...]

_HISTOGRAMS: Mapping[str, tuple[str, Bounds]] = {
    "request_prompt_tokens": ("Prompt tokens of a request.", _LENGTHS),
    "request_generation_tokens": ("Tokens generated for a request.", _LENGTHS),
    "iteration_tokens_total": ("Tokens of one engine step.", tuple(map(float, ITERATION_BOUNDS))),
    "request_max_num_generation_tokens": ("Most tokens a request asked for.", _LENGTHS),
    "request_params_n": ("Copies a request asked for.", _COPIES),
    "request_params_max_tokens": ("A request's max_tokens.", _LENGTHS),
    "time_to_first_token_seconds": ("Time to first token.", _SHORT),
    "inter_token_latency_seconds": ("Time between two tokens of a request.", ITL_BOUNDS),
    "request_time_per_output_token_seconds": ("Mean time per token after the first, by request.", ITL_BOUNDS),
    "e2e_request_latency_seconds": ("Time from a request's arrival to its end.", _LONG),
    "request_queue_time_seconds": ("Time a request waited.", _LONG),
    "request_inference_time_seconds": ("Time a request ran.", _LONG),
    "request_prefill_time_seconds": ("Time a request prefilled.", _LONG),
    "request_decode_time_seconds": ("Time a request decoded.", _LONG),
    "request_num_preemptions": ("How often a request was preempted.", _PREEMPTIONS),
    "request_prefill_kv_computed_tokens": ("Prompt tokens of a request that no cache held.", _LENGTHS),
}

_REASONS = ("stop", "length", "abort", "error", "repetition")
_QUEUE_LIMITS = ("max_num_queued_reqs", "max_num_queued_tokens")
_CACHE_TIERS = ("device", "host", "p2p", "disk", "external_unspecified")
_COUNTS = (
    "completed", "preemptions", "prompt_tokens", "cached_tokens", "generation_tokens", "itl_sum", "iteration_sum",
)  # fmt: skip


@dataclass(slots=True)
class _Histogram:
    bounds: Bounds
    counts: list[int]
    sum: float = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value


class MetricsPage:
    """The page of one engine process; `restart` begins the next one's, from zero."""

    def __init__(self, engine: Engine, started: float) -> None:
        """Count from now on; the process started at `started` (Unix seconds)."""
        self._engine = engine
        self._info = _labels(_cache_config(engine.physics))
        self.restart(started)

    def restart(self, started: float) -> None:
        """Begin anew, as the page of a process that starts at `started` (Unix seconds)."""
        engine = self._engine
        engine.first_tokens.clear()
        engine.finished.clear()
        self._started = started
        self._info = _labels(_cache_config(engine.physics))
        self._base = {name: getattr(engine, name) for name in _COUNTS}
        self._base_itl = list(engine.itl_counts)
        self._base_iteration = list(engine.iteration_counts)
        self._histograms = {
            name: _Histogram(bounds, [0] * (len(bounds) + 1)) for name, (_, bounds) in _HISTOGRAMS.items()
        }

    def absorb(self) -> None:
        """Count what finished since the last look."""
        engine, found = self._engine, self._histograms
        ttft = found["time_to_first_token_seconds"]
        for seconds in engine.first_tokens:
            ttft.observe(seconds)
        engine.first_tokens.clear()
        for row in engine.finished:
            arrival, finish = row[1], row[3]
            prompt, output, cached, queued, prefill, decode, preemptions = row[7:14]
            found["request_prompt_tokens"].observe(prompt)
            found["request_generation_tokens"].observe(output)
            # Every request here is served to the length it asked for, once.
            found["request_max_num_generation_tokens"].observe(output)
            found["request_params_max_tokens"].observe(output)
            found["request_params_n"].observe(1)
            found["request_time_per_output_token_seconds"].observe(
                decode / (output - 1) if output > 1 else 0.0
            )
            found["e2e_request_latency_seconds"].observe(finish - arrival)
            found["request_queue_time_seconds"].observe(queued)
            found["request_inference_time_seconds"].observe(prefill + decode)
            found["request_prefill_time_seconds"].observe(prefill)
            found["request_decode_time_seconds"].observe(decode)
            found["request_num_preemptions"].observe(preemptions)
            found["request_prefill_kv_computed_tokens"].observe(prompt - cached)
        engine.finished.clear()
        steps = found["iteration_tokens_total"]
        steps.counts = _less(engine.iteration_counts, self._base_iteration)
        steps.sum = self._since("iteration_sum")
        gaps = found["inter_token_latency_seconds"]
        gaps.counts = _less(engine.itl_counts, self._base_itl)
        gaps.sum = self._since("itl_sum")

    def _since(self, name: str) -> float:
        return float(getattr(self._engine, name) - self._base[name])

    def text(self) -> str:
        """The page in Prometheus' text format, as of the engine's clock."""
        self.absorb()
        engine = self._engine
        waiting, blocks = len(engine.waiting), engine.physics.kv_blocks
        prompt, cached = self._since("prompt_tokens"), self._since("cached_tokens")
        page = _Writer(self._started)
        page.process_start()
        page.gauge("num_requests_running", "Requests in the batch.", [({}, len(engine.running))])
        page.gauge("num_requests_waiting", "Requests in the queue.", [({}, waiting)])
        page.gauge(
            "num_requests_waiting_by_reason",
            "Requests in the queue by what they wait for.",
            [({"reason": "capacity"}, waiting), ({"reason": "deferred"}, 0)],
        )
        page.gauge(
            "engine_sleep_state",
            "Whether the engine sleeps, and how deep.",
            [
                ({"sleep_state": state}, int(state == "awake"))
                for state in ("awake", "weights_offloaded", "discard_all")
            ],
        )
        page.gauge(
            "kv_cache_usage_perc", "KV cache usage; 1 is full.", [({}, 1 - engine.free_blocks / blocks)]
        )
        page.counter("prefix_cache_queries", "Prompt tokens looked up in the prefix cache.", [({}, prompt)])
        page.counter("prefix_cache_hits", "Prompt tokens the prefix cache held.", [({}, cached)])
        for cache in ("external_prefix_cache", "mm_cache"):
            page.counter(f"{cache}_queries", "Look-ups in a cache this engine has not.", [({}, 0)])
            page.counter(f"{cache}_hits", "Hits in a cache this engine has not.", [({}, 0)])
        page.counter("num_preemptions", "Preemptions.", [({}, self._since("preemptions"))])
        page.counter("prompt_tokens", "Prompt tokens processed.", [({}, prompt)])
        page.counter(
            "prompt_tokens_by_source",
            "Prompt tokens by where their KV came from.",
            [
                ({"source": "local_compute"}, prompt - cached),
                ({"source": "local_cache_hit"}, cached),
                ({"source": "external_kv_transfer"}, 0),
            ],
        )
        page.counter("prompt_tokens_cached", "Prompt tokens a cache held.", [({}, cached)])
        page.counter(
            "prompt_tokens_cached_by_source",
            "Prompt tokens a cache held, by its tier.",
            [({"source": tier}, cached if tier == "device" else 0) for tier in _CACHE_TIERS],
        )
        page.counter("generation_tokens", "Tokens generated.", [({}, self._since("generation_tokens"))])
        page.counter(
            "request_success",
            "Requests that finished, by reason.",
            [
                ({"finished_reason": reason}, self._since("completed") if reason == "length" else 0)
                for reason in _REASONS
            ],
        )
        page.counter(
            "admission_rejections",
            "Requests turned away by a queue limit, of which this engine has none.",
            [({"reason": limit}, 0) for limit in _QUEUE_LIMITS],
            of_an_engine=False,
        )
        for name, histogram in self._histograms.items():
            page.histogram(name, _HISTOGRAMS[name][0], histogram)
        page.lines.append("# HELP vllm:cache_config_info How the KV cache is laid out.")
        page.lines.append("# TYPE vllm:cache_config_info gauge")
        page.lines.append(f"vllm:cache_config_info{self._info} 1.0")
        return "\n".join(page.lines) + "\n"


Points = Iterable[tuple[Mapping[str, str], float]]


class _Writer:
    """Lines of the page; a counter and a histogram tell when they were created too, as the real page does."""

    def __init__(self, started: float) -> None:
        self.lines: list[str] = []
        self._started = _number(started)

    def process_start(self) -> None:
        self._head("process_start_time_seconds", "When the process started, Unix seconds.", "gauge")
        self.lines.append(f"process_start_time_seconds {self._started}")

    def _head(self, name: str, text: str, kind: str) -> None:
        self.lines.append(f"# HELP {name} {text}")
        self.lines.append(f"# TYPE {name} {kind}")

    def gauge(self, name: str, text: str, points: Points) -> None:
        self._head(f"vllm:{name}", text, "gauge")
        self.lines.extend(f"vllm:{name}{_labels(more)} {_number(value)}" for more, value in points)

    def counter(self, name: str, text: str, points: Points, *, of_an_engine: bool = True) -> None:
        labelled = [(_labels(more, of_an_engine), _number(value)) for more, value in points]
        self._head(f"vllm:{name}_total", text, "counter")
        self.lines.extend(f"vllm:{name}_total{labels} {value}" for labels, value in labelled)
        self._head(f"vllm:{name}_created", text, "gauge")
        self.lines.extend(f"vllm:{name}_created{labels} {self._started}" for labels, _ in labelled)

    def histogram(self, name: str, text: str, histogram: _Histogram) -> None:
        full = f"vllm:{name}"
        self._head(full, text, "histogram")
        totals = list(accumulate(histogram.counts))
        for prefix, total in zip(_bucket_prefixes(full, histogram.bounds), totals, strict=True):
            self.lines.append(f"{prefix} {_number(total)}")
        plain = _labels({})
        self.lines.append(f"{full}_count{plain} {_number(totals[-1])}")
        self.lines.append(f"{full}_sum{plain} {_number(histogram.sum)}")
        self._head(f"{full}_created", text, "gauge")
        self.lines.append(f"{full}_created{plain} {self._started}")


_PREFIXES: dict[str, list[str]] = {}


def _bucket_prefixes(name: str, bounds: Bounds) -> list[str]:
    """Everything of the bucket lines but their values, kept since they are most of the page."""
    if name not in _PREFIXES:
        edges = [*map(_number, bounds), "+Inf"]
        _PREFIXES[name] = [f"{name}_bucket{_labels({'le': edge})}" for edge in edges]
    return _PREFIXES[name]


def _number(value: float) -> str:
    text: str = floatToGoString(value)  # type: ignore[no-untyped-call]
    return text


def _labels(more: Mapping[str, str], of_an_engine: bool = True) -> str:
    engine = {"engine": "0"} if of_an_engine else {}
    pairs = sorted({**engine, "model_name": MODEL_NAME, **more}.items())
    return "{" + ",".join(f'{name}="{value}"' for name, value in pairs) + "}"


def _less(counts: Sequence[int], base: Sequence[int]) -> list[int]:
    return [now - before for now, before in zip(counts, base, strict=True)]


def _cache_config(physics: Physics) -> dict[str, str]:
    return {
        "block_size": str(physics.block_tokens),
        "cache_dtype": "auto",
        "enable_prefix_caching": "True",
        "gpu_memory_utilization": "0.92",
        "is_attention_free": "False",
        "kv_cache_memory_bytes": "None",
        "kv_cache_size_tokens": str(physics.kv_blocks * physics.block_tokens),
        "num_cpu_blocks": "None",
        "num_gpu_blocks": str(physics.kv_blocks),
        "num_gpu_blocks_override": "None",
        "prefix_caching_hash_algo": "sha256",
        "sliding_window": "None",
        "user_specified_block_size": "False",
    }
