"""Rows about the logs that are followed."""

from __future__ import annotations

from collectors.metrics.row import Metric

LOG_EVENT = ("severity", "signature", "source")

LOG_ROWS = (
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
)
