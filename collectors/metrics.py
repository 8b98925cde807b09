"""The one table of canonical metric names; History, the rules and the exporter all read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["gauge", "counter", "histogram"]
Combine = Literal["sum", "mean", "max", "min"]

DEVICE = ("npu", "chip", "name")
ENGINE = ("engine", "model")


@dataclass(frozen=True, slots=True)
class Metric:
    """One canonical name.

    `unit` is the base unit of the value; `labels` are the label names a sample may carry; `combine` says how
    the series of several devices or engine ranks make one figure when a reader asks for no particular one.
    """

    name: str
    help: str
    unit: str
    kind: Kind = "gauge"
    labels: tuple[str, ...] = ()
    combine: Combine = "sum"

    def __post_init__(self) -> None:
        if (self.kind == "counter") != self.name.endswith("_total"):
            raise ValueError(f"{self.name}: counters, and only they, end in _total; got kind {self.kind}")


def _device(
    name: str,
    help: str,
    unit: str,
    kind: Kind = "gauge",
    combine: Combine = "sum",
    more: tuple[str, ...] = (),
) -> Metric:
    return Metric(f"npu_{name}", help, unit, kind, DEVICE + more, combine)


def _engine(
    name: str,
    help: str,
    unit: str,
    kind: Kind = "gauge",
    combine: Combine = "sum",
    more: tuple[str, ...] = (),
) -> Metric:
    return Metric(f"trimtab_engine_{name}", help, unit, kind, ENGINE + more, combine)


_ROWS = (
    # Devices.
    _device("info", "Identity of the device; always 1.", "1", combine="max", more=("bus_id", "phy_id")),
    _device(
        "health_ok", "1 if the device says it is healthy, 0 if not; absent if unknown.", "1", combine="min"
    ),
    _device("health_state", "1 for the health word the device reports.", "1", combine="max", more=("state",)),
    _device(
        "error_active",
        "1 for each fault code (hexadecimal) now reported.",
        "1",
        combine="max",
        more=("code",),
    ),
    _device("aicore_usage_ratio", "Share of time the AI cores were busy.", "ratio", combine="mean"),
    _device("vector_usage_ratio", "Share of time the vector cores were busy.", "ratio", combine="mean"),
    _device("cube_usage_ratio", "Share of time the cube (matrix) cores were busy.", "ratio", combine="mean"),
    _device("overall_usage_ratio", "Share of time any core was busy.", "ratio", combine="mean"),
    _device(
        "aicpu_usage_ratio", "Share of time the AI CPUs of the device were busy.", "ratio", combine="mean"
    ),
    _device(
        "ctrlcpu_usage_ratio",
        "Share of time the control CPUs of the device were busy.",
        "ratio",
        combine="mean",
    ),
    _device("aicore_frequency_hertz", "Current clock of the AI cores.", "hertz", combine="min"),
    _device("aicore_rated_frequency_hertz", "Rated clock of the AI cores.", "hertz", combine="min"),
    _device("hbm_used_bytes", "On-chip memory (HBM) in use.", "bytes"),
    _device("hbm_total_bytes", "On-chip memory (HBM) there is.", "bytes"),
    _device("hbm_bandwidth_usage_ratio", "Share of the HBM bandwidth in use.", "ratio", combine="mean"),
    _device("hbm_temperature_celsius", "Temperature of the HBM.", "celsius", combine="max"),
    _device("hbm_ecc_errors_total", "ECC errors of the HBM.", "errors", "counter", more=("bits",)),
    _device(
        "hbm_isolated_pages", "Pages of the HBM taken out of use after ECC errors.", "pages", more=("bits",)
    ),
    _device("memory_used_bytes", "DDR memory of the device in use.", "bytes"),
    _device("memory_total_bytes", "DDR memory of the device there is.", "bytes"),
    _device(
        "memory_bandwidth_usage_ratio", "Share of the DDR memory's bandwidth in use.", "ratio", combine="mean"
    ),
    _device("memory_ecc_errors_total", "ECC errors of the DDR memory.", "errors", "counter", more=("bits",)),
    _device("temperature_celsius", "Temperature of the chip.", "celsius", combine="max"),
    _device("power_watts", "Power the device draws (a card of two dies reports it once).", "watts"),
    _device("voltage_volts", "Supply voltage of the chip.", "volts", combine="min"),
    _device(
        "network_ok", "1 if the device's network answers, 0 if not; absent if unknown.", "1", combine="min"
    ),
    _device(
        "link_up", "1 if the device's network port is up, 0 if down; absent if unknown.", "1", combine="min"
    ),
    _device("hccs_ok", "1 if the links to other devices (HCCS) are healthy, 0 if not.", "1", combine="min"),
    _device("hccs_tx_bytes_total", "Bytes sent to other devices over HCCS.", "bytes", "counter"),
    _device("hccs_rx_bytes_total", "Bytes received from other devices over HCCS.", "bytes", "counter"),
    _device("hccs_retries_total", "Packets that HCCS links sent again.", "packets", "counter"),
    _device("hccs_errors_total", "Errors of the HCCS links.", "errors", "counter"),
    _device(
        "pcie_errors_total",
        "Errors of the PCIe link, by kind (tx, rx, lcrc, ecrc, retry).",
        "errors",
        "counter",
        more=("kind",),
    ),
    _device("process_memory_bytes", "Device memory a process holds.", "bytes", more=("pid", "process")),
    # The engine.
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
    ),
    Metric(
        "trimtab_engine_start_time_seconds",
        "When the engine's server process started, in Unix time.",
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
    # The host.
    Metric("trimtab_host_cpu_usage_ratio", "Share of CPU time that was not idle.", "ratio", combine="mean"),
    Metric("trimtab_host_cpus", "CPUs that are online.", "cpus"),
    Metric("trimtab_host_load_average", "Load average.", "tasks", labels=("minutes",), combine="max"),
    Metric("trimtab_host_memory_available_bytes", "Host memory that can be had without swapping.", "bytes"),
    Metric("trimtab_host_memory_total_bytes", "Host memory there is.", "bytes"),
    Metric("trimtab_host_swap_used_bytes", "Swap in use.", "bytes"),
    Metric("trimtab_host_disk_free_bytes", "Free space for an ordinary user.", "bytes", labels=("path",)),
    Metric("trimtab_host_disk_total_bytes", "Size of the file system.", "bytes", labels=("path",)),
    # Trimtab itself.
    Metric("trimtab_build_info", "Version of Trimtab; always 1.", "1", labels=("version",), combine="max"),
    Metric(
        "trimtab_mode",
        "1 for the mode Trimtab is in, 0 for the others.",
        "1",
        labels=("mode",),
        combine="max",
    ),
    Metric("trimtab_paused", "1 while Trimtab is paused.", "1", combine="max"),
    Metric("trimtab_campaign_active", "1 while a campaign runs.", "1", combine="max"),
    Metric(
        "trimtab_switches_total",
        "Hot changes made to the engine since Trimtab started.",
        "changes",
        "counter",
    ),
    Metric(
        "trimtab_collector_success",
        "1 if the source's last reading was good, 0 if it failed.",
        "1",
        labels=("collector",),
        combine="min",
    ),
    Metric(
        "trimtab_collector_duration_seconds",
        "How long the source's last reading took.",
        "seconds",
        labels=("collector",),
        combine="max",
    ),
    Metric(
        "trimtab_collector_notes",
        "Rows or cells of the source's last reading that could not be read.",
        "notes",
        labels=("collector",),
    ),
    Metric(
        "trimtab_sample_age_seconds",
        "Age of the source's newest sample.",
        "seconds",
        labels=("collector",),
        combine="max",
    ),
    Metric("trimtab_history_series", "Series held in memory.", "series"),
    Metric(
        "trimtab_history_refused_samples_total",
        "Samples not kept because the limit of series was reached.",
        "samples",
        "counter",
    ),
    # Names that operators of this field already use.
    Metric(
        "npu_mem_bandwidth",
        "HBM bandwidth in use, in percent (npu_hbm_bandwidth_usage_ratio times 100).",
        "percent",
        labels=DEVICE,
        combine="mean",
    ),
    Metric(
        "npu_sm_activity",
        "AI core utilisation, in percent (npu_aicore_usage_ratio times 100); an NPU has no SMs.",
        "percent",
        labels=DEVICE,
        combine="mean",
    ),
    Metric(
        "vllm_pending_queries",
        "Requests waiting to be scheduled (trimtab_engine_requests_waiting).",
        "requests",
        labels=ENGINE,
    ),
)

METRICS: dict[str, Metric] = {row.name: row for row in _ROWS}
"""Every canonical name, in the order of the page and the docs."""

if len(METRICS) != len(_ROWS):
    raise ValueError("collectors.metrics: a name stands twice in the table")
