"""Rows about the machine the daemon runs on."""

from __future__ import annotations

from collectors.metrics.row import Metric

HOST_ROWS = (
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
)
