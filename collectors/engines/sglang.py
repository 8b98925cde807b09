"""SGLang's /metrics page, which `--enable-metrics` gives, from 0.4.6 on.

Source of the names: SGLang's production metrics page and its `metrics_collector.py` by release.
"""

from __future__ import annotations

from collectors.engines.families import (
    ByFamily,
    Family,
    Found,
    Kind,
    Role,
    canonical_labels,
    names_ranks,
    newest,
    server_errors,
)
from collectors.sample import Sample, labels

_WAITING = "trimtab_engine_requests_waiting_by_reason"

FAMILIES = (
    Family("trimtab_engine_requests_running", ("num_running_reqs",)),
    Family("trimtab_engine_requests_waiting", ("num_queue_reqs",)),
    # The queues beside the main one: the grammar's, and those of a disaggregated pair.
    Family(_WAITING, ("num_grammar_queue_reqs",), labels(reason="grammar")),
    Family(_WAITING, ("num_paused_reqs",), labels(reason="paused")),
    Family(_WAITING, ("num_prefill_bootstrap_queue_reqs",), labels(reason="prefill_bootstrap")),
    Family(_WAITING, ("num_prefill_inflight_queue_reqs",), labels(reason="prefill_inflight")),
    Family(_WAITING, ("num_decode_prealloc_queue_reqs",), labels(reason="decode_prealloc")),
    Family(_WAITING, ("num_decode_transfer_queue_reqs",), labels(reason="decode_transfer")),
    Family("trimtab_engine_kv_cache_usage_ratio", ("token_usage",)),
    Family("trimtab_engine_kv_cache_blocks", ("num_pages",)),
    Family("trimtab_engine_kv_cache_block_tokens", ("page_size",)),
    # What SGLang calls a retraction. The old name was a gauge that only grew.
    Family("trimtab_engine_preemptions_total", ("num_retracted_requests_total", "total_retracted_reqs")),
    # Both are counted when a request ends, not while it runs.
    Family("trimtab_engine_prompt_tokens_total", ("prompt_tokens_total",)),
    Family("trimtab_engine_generation_tokens_total", ("generation_tokens_total",)),
    # Every prompt is looked up in the prefix cache; hits are absent until there is one.
    Family("trimtab_engine_prefix_cache_queried_tokens_total", ("prompt_tokens_total",)),
    Family("trimtab_engine_prefix_cache_hit_tokens_total", ("cached_tokens_total",)),
    Family("trimtab_engine_requests_finished_total", ("num_requests_total",)),
    Family("trimtab_engine_ttft_seconds", ("time_to_first_token_seconds",)),
    Family("trimtab_engine_itl_seconds", ("inter_token_latency_seconds", "time_per_output_token_seconds")),
    Family("trimtab_engine_tpot_seconds", ("request_time_per_output_token_seconds",)),
    Family("trimtab_engine_e2e_seconds", ("e2e_request_latency_seconds",)),
    Family("trimtab_engine_queue_seconds", ("queue_time_seconds", "queue_time_s")),
    Family("trimtab_engine_request_prompt_tokens", ("prompt_tokens_histogram",)),
    Family("trimtab_engine_request_generation_tokens", ("generation_tokens_histogram",)),
)

_PREFIXES = ("sglang:", "sglang_")
_RESPONSES = "http_responses_total"
_CACHE_CONFIG = "cache_config_info"
_ROLES: dict[str, Role] = {"prefill": "prefill", "decode": "decode"}


def _more(by_family: ByFamily, now: float) -> Found:
    """The cache's size in 0.5.10, failed answers, and the role."""
    samples: list[Sample] = []
    ranks = names_ranks(SGLANG, by_family)
    for point in newest(by_family, _PREFIXES, (_CACHE_CONFIG,)):
        pairs = dict(point.labels)
        own = canonical_labels(SGLANG, point.labels, ("engine", "model"), ranks=ranks)
        for label, name in (
            ("num_pages", "trimtab_engine_kv_cache_blocks"),
            ("page_size", "trimtab_engine_kv_cache_block_tokens"),
        ):
            if pairs.get(label, "").isdecimal():
                samples.append(Sample(name, float(pairs[label]), now, own))
    responses = newest(by_family, _PREFIXES, (_RESPONSES,))
    samples.extend(server_errors(responses, "endpoint", "status_code", now))
    return Found(samples, _role(by_family))


def _role(by_family: ByFamily) -> Role | None:
    told = {
        value
        for point in newest(by_family, _PREFIXES, ("num_running_reqs",))
        for key, value in point.labels
        if key == "engine_type"
    }
    # Older releases say "unified" of the halves of a pair too, so that word decides nothing.
    return _ROLES.get(told.pop()) if len(told) == 1 else None


SGLANG = Kind(
    name="sglang",
    title="SGLang",
    prefixes=_PREFIXES,
    markers=_PREFIXES,
    families=FAMILIES,
    labels={"dp_rank": "engine", "model_name": "model"},
    absent="is it SGLang, and was it started with --enable-metrics?",
    extra=tuple(prefix + name for prefix in _PREFIXES for name in (_RESPONSES, _CACHE_CONFIG)),
    more=_more,
    # --enable-metrics-for-all-schedulers has every rank of one model copy report the same requests.
    copies=("pp_rank", "tp_rank", "moe_ep_rank"),
    # With priority scheduling the requests stand once in all and once for each priority.
    totals=("priority",),
)
