"""Rows about the engine, read of its own /metrics, its processes and its answers."""

from __future__ import annotations

from collectors.metrics.row import Metric
from collectors.metrics.row import engine_metric as _engine
from collectors.sample import SERVER

ENGINE_ROWS = (
    _engine(
        "info",
        "What the engine is; always 1. What is unknown has no label.",
        "1",
        combine="max",
        more=("kind", "role", "version"),
    ),
    _engine("requests_running", "Requests in the running batch.", "requests"),
    _engine("requests_waiting", "Requests waiting to be scheduled.", "requests"),
    _engine("requests_waiting_by_reason", "Requests waiting, by reason.", "requests", more=("reason",)),
    _engine("kv_cache_usage_ratio", "Share of the KV cache blocks in use.", "ratio", combine="max"),
    _engine("kv_cache_blocks", "KV cache blocks there are.", "blocks"),
    _engine("kv_cache_block_tokens", "Tokens in a KV cache block.", "tokens", combine="max"),
    _engine("preemptions_total", "Requests thrown out of the batch to free KV cache.", "requests", "counter"),
    _engine("prompt_tokens_total", "Prompt tokens computed or found in the cache.", "tokens", "counter"),
    _engine("generation_tokens_total", "Tokens generated.", "tokens", "counter"),
    _engine(
        "prefix_cache_queried_tokens_total",
        "Prompt tokens looked up in the prefix cache.",
        "tokens",
        "counter",
    ),
    _engine("prefix_cache_hit_tokens_total", "Prompt tokens found in the prefix cache.", "tokens", "counter"),
    _engine("requests_finished_total", "Requests that ended.", "requests", "counter", more=("reason",)),
    _engine("rejections_total", "Requests refused at admission.", "requests", "counter", more=("reason",)),
    _engine("ttft_seconds", "Time to first token.", "seconds", "histogram"),
    _engine("itl_seconds", "Time between two tokens of one request.", "seconds", "histogram"),
    _engine("tpot_seconds", "Mean time per output token of a request.", "seconds", "histogram"),
    _engine("e2e_seconds", "Time from a request's arrival to its end.", "seconds", "histogram"),
    _engine("queue_seconds", "Time a request waited to be scheduled.", "seconds", "histogram"),
    _engine("prefill_seconds", "Time a request spent in prefill.", "seconds", "histogram"),
    _engine("decode_seconds", "Time a request spent in decode.", "seconds", "histogram"),
    _engine(
        "step_tokens", "Tokens in one engine step; its count is the number of steps.", "tokens", "histogram"
    ),
    _engine("request_prompt_tokens", "Prompt tokens of a request.", "tokens", "histogram"),
    _engine("request_generation_tokens", "Tokens generated for a request.", "tokens", "histogram"),
    _engine("request_max_tokens", "The max_tokens a request asked for.", "tokens", "histogram"),
    Metric(
        "trimtab_engine_http_errors_total",
        "Answers with a status of 500 and above to requests under /v1/.",
        "requests",
        "counter",
        labels=(SERVER,),
    ),
    Metric(
        "trimtab_engine_start_time_seconds",
        "When the engine's server process started, in Unix time.",
        "seconds",
        labels=(SERVER,),
        combine="max",
    ),
    Metric(
        "trimtab_engine_probe_success",
        "1 if the engine answered the last one-token request of the stall probe, 0 if not.",
        "1",
        combine="min",
    ),
    Metric(
        "trimtab_engine_probe_seconds",
        "How long the last one-token request of the stall probe took, or was waited for.",
        "seconds",
        combine="max",
    ),
    Metric("trimtab_engine_process_resident_bytes", "Host memory the engine's processes hold.", "bytes"),
    Metric(
        "trimtab_engine_process_cpu_seconds_total",
        "CPU time of the engine's processes.",
        "seconds",
        "counter",
    ),
    Metric("trimtab_engine_process_threads", "Threads of the engine's processes.", "threads"),
    Metric("trimtab_engine_processes", "Processes of the engine.", "processes", labels=("process",)),
    Metric(
        "trimtab_engine_process_memory_bytes",
        "Host memory that is resident: private, of mapped files, or shared memory.",
        "bytes",
        labels=("process", "kind"),
    ),
    Metric(
        "trimtab_engine_process_proportional_bytes",
        "Resident host memory where a page that n processes map counts as its n-th part (PSS).",
        "bytes",
        labels=("process",),
    ),
    Metric(
        "trimtab_engine_process_huge_page_bytes",
        "Private memory that lies in transparent huge pages.",
        "bytes",
        labels=("process",),
    ),
    Metric(
        "trimtab_engine_memory_on_node_bytes",
        "Memory on a NUMA node; a page that several processes map counts in each.",
        "bytes",
        labels=("process", "kind", "node"),
    ),
    Metric(
        "trimtab_engine_threads",
        "Threads by the NUMA node on which they last ran.",
        "threads",
        labels=("process", "node"),
    ),
    Metric(
        "trimtab_engine_threads_off_npu_node",
        "Threads that last ran on another NUMA node than those of the NPUs their process uses.",
        "threads",
        labels=("process",),
    ),
    Metric(
        "trimtab_engine_threads_spanning_nodes",
        "Threads that may run on CPUs of more than one NUMA node.",
        "threads",
        labels=("process",),
    ),
    Metric(
        "trimtab_engine_thread_cpu_seconds_total",
        "CPU time of threads by the NUMA node on which they were seen, since Trimtab first saw them.",
        "seconds",
        "counter",
        labels=("process", "node"),
    ),
    Metric(
        "trimtab_engine_stalled_cycles_ratio",
        "Share of CPU cycles in which the engine's processes stalled (frontend or backend).",
        "ratio",
        labels=("kind",),
        combine="max",
    ),
    Metric("trimtab_engine_cpuset_cpus", "CPUs that the engine's control group allows.", "cpus"),
    Metric("trimtab_engine_cpuset_nodes", "NUMA nodes whose memory the control group allows.", "nodes"),
)
