"""MindIE Server's /metrics page, which it serves on its metricsPort under MIES_SERVICE_MONITOR_MODE=1.

Source of the names: Huawei's MindIE documentation, "service monitoring metrics query interface (Prometheus format)".
"""

from __future__ import annotations

from collectors.engines.families import Family, Kind
from collectors.sample import labels

_FINISHED = "trimtab_engine_requests_finished_total"

FAMILIES = (
    Family("trimtab_engine_requests_running", ("num_requests_running",)),
    Family("trimtab_engine_requests_waiting", ("num_requests_waiting",)),
    Family("trimtab_engine_requests_waiting_by_reason", ("num_requests_swapped",), labels(reason="swapped")),
    Family("trimtab_engine_kv_cache_usage_ratio", ("npu_cache_usage_perc",)),
    Family("trimtab_engine_preemptions_total", ("num_preemptions_total",)),
    Family("trimtab_engine_prompt_tokens_total", ("prompt_tokens_total",)),
    Family("trimtab_engine_generation_tokens_total", ("generation_tokens_total",)),
    # Gauges that hold what was counted so far; only newer releases have them.
    Family("trimtab_engine_prefix_cache_queried_tokens_total", ("all_radix_match_num",)),
    Family("trimtab_engine_prefix_cache_hit_tokens_total", ("npu_radix_match_hit_num",)),
    Family(_FINISHED, ("request_success_total",), labels(reason="success")),
    Family(_FINISHED, ("request_failed_total",), labels(reason="error")),
    Family("trimtab_engine_ttft_seconds", ("time_to_first_token_seconds",)),
    # It is observed for each token, so it is the gap between tokens in spite of its name.
    Family("trimtab_engine_itl_seconds", ("time_per_output_token_seconds",)),
    Family("trimtab_engine_e2e_seconds", ("e2e_request_latency_seconds",)),
    Family("trimtab_engine_request_prompt_tokens", ("request_prompt_tokens",)),
    Family("trimtab_engine_request_generation_tokens", ("request_generation_tokens",)),
)

MINDIE = Kind(
    name="mindie",
    title="MindIE",
    prefixes=("",),
    markers=("request_received_total", "npu_cache_usage_perc", "npu_prefix_cache_hit_rate"),
    families=FAMILIES,
    labels={"model_name": "model"},
    absent="is it MindIE's metricsPort, and was it started with MIES_SERVICE_MONITOR_MODE=1?",
)
