"""vLLM's /metrics page, in every spelling and version from 0.6 on; vllm-ascend serves the same page.

Source of the names: vLLM's `engine/metrics.py` and `v1/metrics/loggers.py` by release.
"""

from __future__ import annotations

from collectors.engines.families import (
    ByFamily,
    Family,
    Found,
    Kind,
    PageReader,
    canonical_labels,
    newest,
    server_errors,
)
from collectors.prometheus_text import Point
from collectors.sample import Sample, labels

FAMILIES = (
    Family("trimtab_engine_requests_running", ("num_requests_running",)),
    Family("trimtab_engine_requests_waiting", ("num_requests_waiting",)),
    Family("trimtab_engine_requests_waiting_by_reason", ("num_requests_waiting_by_reason",)),
    # The first generation's scheduler swapped requests out to host memory (to 0.8.5).
    Family("trimtab_engine_requests_waiting_by_reason", ("num_requests_swapped",), labels(reason="swapped")),
    # gpu_ to 0.10.2, hidden in 0.11; both stand on the page of the versions between 0.9.2 and 0.11.
    Family("trimtab_engine_kv_cache_usage_ratio", ("kv_cache_usage_perc", "gpu_cache_usage_perc")),
    Family("trimtab_engine_preemptions_total", ("num_preemptions_total",)),
    Family("trimtab_engine_prompt_tokens_total", ("prompt_tokens_total",)),
    Family("trimtab_engine_generation_tokens_total", ("generation_tokens_total",)),
    Family(
        "trimtab_engine_prefix_cache_queried_tokens_total",
        ("prefix_cache_queries_total", "gpu_prefix_cache_queries_total"),
    ),
    Family(
        "trimtab_engine_prefix_cache_hit_tokens_total",
        ("prefix_cache_hits_total", "gpu_prefix_cache_hits_total"),
    ),
    Family("trimtab_engine_requests_finished_total", ("request_success_total",)),
    Family("trimtab_engine_rejections_total", ("admission_rejections_total",)),
    Family("trimtab_engine_ttft_seconds", ("time_to_first_token_seconds",)),
    # Renamed in 0.10.2; the old name meant the gap between tokens too.
    Family("trimtab_engine_itl_seconds", ("inter_token_latency_seconds", "time_per_output_token_seconds")),
    Family("trimtab_engine_tpot_seconds", ("request_time_per_output_token_seconds",)),
    Family("trimtab_engine_e2e_seconds", ("e2e_request_latency_seconds",)),
    Family("trimtab_engine_queue_seconds", ("request_queue_time_seconds", "time_in_queue_requests")),
    Family("trimtab_engine_prefill_seconds", ("request_prefill_time_seconds",)),
    Family("trimtab_engine_decode_seconds", ("request_decode_time_seconds",)),
    Family("trimtab_engine_step_tokens", ("iteration_tokens_total",)),
    Family("trimtab_engine_request_prompt_tokens", ("request_prompt_tokens",)),
    Family("trimtab_engine_request_generation_tokens", ("request_generation_tokens",)),
    Family("trimtab_engine_request_max_tokens", ("request_params_max_tokens",)),
)
_CACHE_CONFIG = "cache_config_info"
_HTTP_REQUESTS = "http_requests_total"
_PREFIXES = ("vllm:", "vllm_")


def _more(by_family: ByFamily, now: float) -> Found:
    samples: list[Sample] = []
    for point in newest(by_family, _PREFIXES, (_CACHE_CONFIG,)):
        samples.extend(_cache_config(point, now))
    return Found(samples + server_errors(by_family.get(_HTTP_REQUESTS, ()), "handler", "status", now))


def _cache_config(point: Point, now: float) -> list[Sample]:
    pairs = dict(point.labels)
    kept = canonical_labels(VLLM, point.labels, ("engine", "model"))
    samples: list[Sample] = []
    for label, name in (
        ("num_gpu_blocks", "trimtab_engine_kv_cache_blocks"),
        ("block_size", "trimtab_engine_kv_cache_block_tokens"),
    ):
        text = pairs.get(label, "")
        if text.isdecimal():  # "None" until the engine has sized its cache
            samples.append(Sample(name, float(text), now, kept))
    return samples


VLLM = Kind(
    name="vllm",
    title="vLLM",
    prefixes=_PREFIXES,
    markers=_PREFIXES,
    families=FAMILIES,
    labels={"engine": "engine", "model_name": "model", "reason": "reason", "finished_reason": "reason"},
    absent="is it vLLM, and was it started without --disable-log-stats?",
    extra=(_HTTP_REQUESTS, *(prefix + _CACHE_CONFIG for prefix in _PREFIXES)),
    more=_more,
)

_READER = PageReader(VLLM)


def parse_vllm(text: str, now: float) -> list[Sample]:
    """Canonical samples of a whole page of vLLM's; see `PageReader.read`."""
    return _READER.read(text, now).samples
