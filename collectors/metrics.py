"""The one table of canonical metric names; History, the rules and the exporter all read it."""

from __future__ import annotations

from collectors.derived_metrics import DERIVED_ROWS
from collectors.link_metrics import LINK_ROWS
from collectors.metric import DEVICE, ENGINE, PLACE, Combine, Kind, Metric
from collectors.metric import device_metric as _device
from collectors.sample import SERVER

__all__ = ["METRICS", "Combine", "Kind", "Metric"]

LOG_EVENT = ("severity", "signature", "source")


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
    _device(
        "info",
        "Identity of the device; always 1.",
        "1",
        combine="max",
        more=("bus_id", "phy_id", "vdie_id", "serial", "product"),
    ),
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
    _device("aicore_frequency_hertz", "Current clock of the AI cores.", "hertz", combine="min"),
    _device("aicore_rated_frequency_hertz", "Clock the AI cores can keep up.", "hertz", combine="min"),
    _device(
        "throttled",
        "1 if something but idleness holds the AI cores below their rated clock, 0 if not; absent if unknown.",
        "1",
        combine="max",
    ),
    _device(
        "clock_reduced",
        "1 for each reason (idle, thermal, ...) that now lowers the clock of the AI cores.",
        "1",
        combine="max",
        more=("reason",),
    ),
    _device("hbm_used_bytes", "On-chip memory (HBM) in use.", "bytes"),
    _device("hbm_total_bytes", "On-chip memory (HBM) there is.", "bytes"),
    _device("hbm_bandwidth_usage_ratio", "Share of the HBM bandwidth in use.", "ratio", combine="mean"),
    _device("hbm_temperature_celsius", "Temperature of the HBM.", "celsius", combine="max"),
    _device("hbm_ecc_errors_total", "ECC errors of the HBM.", "errors", "counter", more=("bits",)),
    _device(
        "hbm_ecc_lifetime_errors_total",
        "ECC errors of the HBM since it was made.",
        "errors",
        "counter",
        more=("bits",),
    ),
    _device("hbm_ecc_enabled", "1 if ECC of the HBM is on, 0 if off.", "1", combine="min"),
    _device("hbm_isolated_pages", "HBM pages taken out of use for ECC errors.", "pages", more=("bits",)),
    _device("hbm_usage_ratio", "Share of the HBM in use.", "ratio", combine="mean"),
    _device("memory_used_bytes", "DDR memory of the device in use.", "bytes"),
    _device("memory_total_bytes", "DDR memory of the device there is.", "bytes"),
    _device("temperature_celsius", "Temperature of the chip.", "celsius", combine="max"),
    _device("power_watts", "Power the device draws (a card of two dies reports it once).", "watts"),
    _device("voltage_volts", "Supply voltage of the chip.", "volts", combine="min"),
    _device(
        "process_memory_bytes", "Device memory a process holds.", "bytes", more=("pid", "process", *PLACE)
    ),
    _device("processes", "Processes that hold memory of the device.", "processes"),
    _device("used_by", "1 for each container that uses the device.", "1", combine="max", more=PLACE),
    _device(
        "container_aicore_usage_ratio",
        "Share of time a container kept the AI cores busy.",
        "ratio",
        more=PLACE,
    ),
    _device("container_memory_used_bytes", "Device memory a container uses.", "bytes", more=PLACE),
    _device("container_memory_total_bytes", "Device memory a container may use.", "bytes", more=PLACE),
    _device(
        "vnpu_aicore_usage_ratio",
        "Share of time the AI cores of a slice (vNPU) were busy.",
        "ratio",
        combine="mean",
        more=("vnpu", *PLACE),
    ),
    _device("vnpu_memory_used_bytes", "Memory of a slice (vNPU) in use.", "bytes", more=("vnpu", *PLACE)),
    _device("vnpu_memory_total_bytes", "Memory of a slice (vNPU).", "bytes", more=("vnpu", *PLACE)),
    Metric("npu_cards", "NPU cards in this machine.", "cards", combine="max"),
    Metric("npu_chips", "NPU chips in this machine.", "chips", combine="max"),
    Metric(
        "npu_exporter_info",
        "Version of npu-exporter and the driver it found; always 1.",
        "1",
        labels=("version", "driver"),
        combine="max",
    ),
    Metric(
        "npu_allocator_reserved_bytes",
        "Device memory that PyTorch's allocator holds in this process.",
        "bytes",
        labels=("device",),
    ),
    Metric(
        "npu_allocator_allocated_bytes",
        "Device memory in use by tensors of this process.",
        "bytes",
        labels=("device",),
    ),
    Metric(
        "npu_allocator_device_free_bytes",
        "Memory of the device that nobody holds, as PyTorch sees it.",
        "bytes",
        labels=("device",),
    ),
    *LINK_ROWS,
    _device("numa_node", "NUMA node of the host the device is attached to.", "1", combine="max"),
    _device("interrupts_total", "Interrupts of the device that the host took.", "interrupts", "counter"),
    _device(
        "interrupts_off_node_total",
        "Those of them that a CPU took which is not of the device's NUMA node.",
        "interrupts",
        "counter",
    ),
    # The engine.
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
    # The host.
    Metric("trimtab_host_cpu_usage_ratio", "Share of CPU time that was not idle.", "ratio", combine="mean"),
    Metric("trimtab_host_cpus", "CPUs that are online.", "cpus"),
    Metric("trimtab_host_load_average", "Load average.", "tasks", labels=("minutes",), combine="max"),
    Metric("trimtab_host_memory_available_bytes", "Host memory that can be had without swapping.", "bytes"),
    Metric("trimtab_host_memory_total_bytes", "Host memory there is.", "bytes"),
    Metric("trimtab_host_swap_used_bytes", "Swap in use.", "bytes"),
    Metric("trimtab_host_disk_free_bytes", "Free space for an ordinary user.", "bytes", labels=("path",)),
    Metric("trimtab_host_disk_total_bytes", "Size of the file system.", "bytes", labels=("path",)),
    Metric("trimtab_host_numa_node_cpus", "CPUs of a NUMA node.", "cpus", labels=("node",)),
    Metric("trimtab_host_numa_node_memory_total_bytes", "Memory of a NUMA node.", "bytes", labels=("node",)),
    Metric(
        "trimtab_host_numa_node_memory_free_bytes",
        "Memory of a NUMA node that nothing uses, the page cache neither.",
        "bytes",
        labels=("node",),
    ),
    Metric(
        "trimtab_host_numa_node_memory_file_bytes",
        "Page cache on a NUMA node, shared memory within.",
        "bytes",
        labels=("node",),
    ),
    Metric(
        "trimtab_host_numa_node_memory_shared_bytes",
        "Shared memory (shmem, tmpfs) on a NUMA node.",
        "bytes",
        labels=("node",),
    ),
    Metric(
        "trimtab_host_npu_interrupts_total",
        "Interrupts of the NPU driver by handler and by the NUMA node that took them.",
        "interrupts",
        "counter",
        labels=("handler", "node"),
    ),
    Metric(
        "trimtab_host_cpus_by_governor",
        "CPUs under a frequency governor.",
        "cpus",
        labels=("governor",),
    ),
    Metric(
        "trimtab_host_huge_pages_mode",
        "1 for the mode of transparent huge pages in force.",
        "1",
        labels=("setting", "mode"),
        combine="max",
    ),
    Metric(
        "trimtab_host_khugepaged_defrag", "1 if khugepaged may defragment memory, else 0.", "1", combine="max"
    ),
    Metric(
        "trimtab_host_numa_balancing",
        "Automatic NUMA balancing: 0 off, 1 on, 2 for tiered memory.",
        "1",
        combine="max",
    ),
    Metric("trimtab_host_swappiness", "The kernel's vm.swappiness.", "1", combine="max"),
    Metric(
        "trimtab_host_sched_migration_cost_seconds",
        "How long the scheduler takes a task for warm on its CPU.",
        "seconds",
        combine="max",
    ),
    *DERIVED_ROWS,
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
    # Logs.
    Metric(
        "trimtab_log_events_total",
        "Log lines that tell of something, by signature.",
        "events",
        "counter",
        LOG_EVENT,
    ),
    Metric(
        "trimtab_log_event_time_seconds",
        "When the signature's last line was read, in Unix time.",
        "seconds",
        labels=LOG_EVENT,
        combine="max",
    ),
    Metric("trimtab_log_lines_total", "Log lines read.", "lines", "counter", ("source",)),
    Metric("trimtab_log_backlog_bytes", "Logs not read yet.", "bytes", labels=("source",)),
    *(
        Metric(
            f"npu_out_of_memory_{figure}_bytes",
            f"{what}, at the last out-of-memory error that a log tells of.",
            "bytes",
            labels=("device", "source"),
            combine="max",
        )
        for figure, what in (
            ("requested", "Device memory asked for in vain"),
            ("capacity", "Device memory there was"),
            ("allocated", "Device memory in use by tensors of the process"),
            ("active", "Device memory in use by tensors or still by a stream"),
            ("free", "Device memory that nobody held"),
            ("reserved", "Device memory that PyTorch's allocator held"),
        )
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
