"""Rows of the table of canonical names for figures that are derived from other samples (docs/health.md)."""

from __future__ import annotations

from collectors.metrics.row import Combine, Metric, device_metric, engine_metric


def _engine(name: str, help: str, unit: str, combine: Combine) -> Metric:
    return engine_metric(name, help, unit, combine=combine)


def _allocator(name: str, help: str, unit: str) -> Metric:
    return Metric(f"npu_allocator_{name}", help, unit, labels=("device",), combine="max")


DERIVED_ROWS = (
    # The engine.
    _engine(
        "queue_share_ratio",
        "Share of their time that the requests which ended in the last 2 minutes waited to be scheduled.",
        "ratio",
        "max",
    ),
    _engine(
        "tokens_per_busy_second",
        "Tokens generated per second in which requests were running, over 2 minutes.",
        "tokens per second",
        "sum",
    ),
    _engine(
        "prefix_hit_ratio",
        "Share of the prompt tokens looked up in the last 5 minutes that the prefix cache had.",
        "ratio",
        "mean",
    ),
    _engine("kv_free_ratio", "Share of the KV cache blocks that are free.", "ratio", "min"),
    _engine("kv_free_blocks", "KV cache blocks that are free.", "blocks", "sum"),
    _engine("kv_free_tokens", "Tokens for which the KV cache has room.", "tokens", "sum"),
    _engine(
        "preemptions_per_second",
        "Requests thrown out of the batch to free KV cache, per second, over 2 minutes.",
        "requests per second",
        "sum",
    ),
    _engine(
        "stalled_seconds",
        "For how long requests have been running without a step or a token (at most 14 minutes are seen).",
        "seconds",
        "max",
    ),
    _engine("stall_suspected", "1 if that is a minute or more, else 0.", "1", "max"),
    _engine(
        "ttft_period_seconds",
        "Likeliest period of the time to first token; read it with its confidence.",
        "seconds",
        "max",
    ),
    _engine(
        "ttft_period_strength_ratio",
        "Autocorrelation of the time to first token at that period, less drift and noise.",
        "ratio",
        "max",
    ),
    _engine(
        "ttft_period_confidence_ratio",
        "Confidence that the time to first token is periodic at all.",
        "ratio",
        "max",
    ),
    Metric(
        "trimtab_engine_process_growth_bytes_per_hour",
        "Growth of the host memory of the engine's processes over 12 hours.",
        "bytes per hour",
    ),
    Metric(
        "trimtab_engine_process_growth_low_bytes_per_hour",
        "Lower bound of that growth in every part of the 12 hours; above 0 it is steady.",
        "bytes per hour",
    ),
    # Devices.
    device_metric(
        "skew_ratio",
        "How far the card is from the median of the others it works with, beyond their own spread, over that median.",
        "ratio",
        combine="max",
        more=("of",),
    ),
    device_metric(
        "lagging_ratio",
        "Share of the last 5 minutes in which the card was under 50% while most of the others worked.",
        "ratio",
        combine="max",
    ),
    device_metric(
        "busier_ratio",
        "How much more the card's use has grown against its last 6 hours than that of any other it works with.",
        "ratio",
        combine="max",
    ),
    device_metric(
        "throttled_share_ratio",
        "Share of the last 3 minutes' readings below the rated clock: as the driver says (dcmi), "
        "or of the busy ones (heuristic).",
        "ratio",
        combine="max",
        more=("source",),
    ),
    device_metric(
        "hbm_growth_bytes_per_hour",
        "Growth of the HBM in use over 12 hours.",
        "bytes per hour",
        combine="max",
    ),
    device_metric(
        "hbm_growth_low_bytes_per_hour",
        "Lower bound of that growth in every part of the 12 hours; above 0 it is steady.",
        "bytes per hour",
        combine="max",
    ),
    _allocator("fragmentation_ratio", "Share of the reserved memory that is not allocated.", "ratio"),
    _allocator(
        "fragmentation_baseline_ratio",
        "What that share was over for nine tenths of the last 20 hours less the last one.",
        "ratio",
    ),
    _allocator(
        "unexplained_growth_bytes_per_hour",
        "Steady growth of the reserved memory in the last hour that the allocated memory does not explain.",
        "bytes per hour",
    ),
    Metric(
        "npu_out_of_memory_fragmentation_ratio",
        "Share of the reserved memory that was not allocated, at the last out-of-memory error that a log tells of.",
        "ratio",
        labels=("device", "source"),
        combine="max",
    ),
    # The host.
    Metric(
        "trimtab_host_memory_loss_bytes_per_hour",
        "Loss of available host memory over 12 hours.",
        "bytes per hour",
    ),
    Metric(
        "trimtab_host_memory_loss_low_bytes_per_hour",
        "Lower bound of that loss in every part of the 12 hours; above 0 it is steady.",
        "bytes per hour",
    ),
)
