"""The figures of this moment, out of the history: what the live page shows. None is unknown, never zero."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from collectors.history import History
from collectors.sample import Distribution, Labels, SourceHealth
from daemon.cold import Progress
from daemon.notices import Notice

WINDOW_SECONDS = 60.0
"""Latencies and rates are those of the last minute."""

_DEVICE_FIGURES = {
    "health_ok": "npu_health_ok",
    "aicore_usage_ratio": "npu_aicore_usage_ratio",
    "hbm_used_bytes": "npu_hbm_used_bytes",
    "hbm_total_bytes": "npu_hbm_total_bytes",
    "temperature_celsius": "npu_temperature_celsius",
    "power_watts": "npu_power_watts",
}
_LATENCIES = {
    "ttft": "trimtab_engine_ttft_seconds",
    "itl": "trimtab_engine_itl_seconds",
    "e2e": "trimtab_engine_e2e_seconds",
}
_RATES = {
    "requests_per_second": "trimtab_engine_requests_finished_total",
    "prompt_tokens_per_second": "trimtab_engine_prompt_tokens_total",
    "output_tokens_per_second": "trimtab_engine_generation_tokens_total",
    "preemptions_per_second": "trimtab_engine_preemptions_total",
}

LEAST_SKEW_RATIO = 0.1
"""Few healthy cards of four, and hardly any of more, seem to be so far from the others."""
_GROWTHS = {
    "hbm_growth_bytes": "npu_hbm_growth",
    "process_growth_bytes": "trimtab_engine_process_growth",
    "host_loss_bytes": "trimtab_host_memory_loss",
}


def devices(history: History) -> list[dict[str, Any]]:
    """One row for each chip that a live source reports, ordered by NPU and chip."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for figure, name in _DEVICE_FIGURES.items():
        for labels in history.series(name):
            pairs = dict(labels)
            key = (pairs.get("npu", ""), pairs.get("chip", ""))
            row = rows.setdefault(
                key,
                {"npu": pairs.get("npu"), "chip": pairs.get("chip"), "name": None}
                | dict.fromkeys(_DEVICE_FIGURES),
            )
            row["name"] = row["name"] or pairs.get("name")
            value = _number(history, name, labels)
            row[figure] = value if figure != "health_ok" or value is None else value > 0
    return [rows[key] for key in sorted(rows, key=lambda key: tuple(_natural(part) for part in key))]


def queue(history: History) -> dict[str, float | None]:
    """Requests running and waiting, and the share of KV blocks in use."""
    return {
        "running": _number(history, "trimtab_engine_requests_running"),
        "waiting": _number(history, "trimtab_engine_requests_waiting"),
        "kv_usage": _number(history, "trimtab_engine_kv_cache_usage_ratio"),
    }


def latency(history: History, now: float) -> dict[str, float | None]:
    """Quantiles of the last minute, in seconds, from the engine's own histograms."""
    return {
        f"{short}_p{round(q * 100)}": history.quantile(name, q, now, WINDOW_SECONDS)
        for short, name in _LATENCIES.items()
        for q in (0.5, 0.9, 0.99)
    }


def throughput(history: History, now: float) -> dict[str, float | None]:
    """Rates of the last minute, per second."""
    return {short: history.rate(name, now, WINDOW_SECONDS) for short, name in _RATES.items()}


def signs(history: History) -> list[dict[str, Any]]:
    """A few of the derived figures (docs/health.md), named by their unit; those of trouble only where there is some.

    Of cards the worst one, with its place. Growth is that of a day at the present pace.
    """
    found = [
        _sign(name, value)
        for name in ("queue_share_ratio", "kv_free_ratio")
        if (value := _number(history, f"trimtab_engine_{name}")) is not None
    ]
    if _number(history, "trimtab_engine_stall_suspected"):
        found.append(_sign("stalled_seconds", _number(history, "trimtab_engine_stalled_seconds"), warn=True))
    for name, least in (("throttled_share_ratio", 0.0), ("skew_ratio", LEAST_SKEW_RATIO)):
        cards = [
            (_number(history, f"npu_{name}", own) or 0.0, dict(own)) for own in history.series(f"npu_{name}")
        ]
        value, card = max(cards, key=lambda one: abs(one[0]), default=(0.0, {}))
        if abs(value) > least:
            place = {key: card.get(key) for key in ("npu", "chip", "of")}
            found.append(_sign(name, value, warn=True) | place)
    for name, growth in _GROWTHS.items():
        low, middle = (_number(history, f"{growth}_{part}bytes_per_hour") for part in ("low_", ""))
        if low is not None and low > 0.0 and middle is not None:
            found.append(_sign(name, 24.0 * middle, warn=True))
    return found


def _sign(name: str, value: float | None, *, warn: bool = False) -> dict[str, Any]:
    return {"name": name, "value": value, "warn": warn, "npu": None, "chip": None, "of": None}


def sources(health: Iterable[SourceHealth]) -> list[dict[str, Any]]:
    """How each source did last."""
    return [
        {
            "name": source.name,
            "success": source.success,
            "duration_seconds": source.duration_seconds,
            "last_success": source.last_success,
            "error": source.error,
            "detail": dict(source.detail),
        }
        for source in health
    ]


def restart(progress: Progress | None, now: float) -> dict[str, Any] | None:
    """A restart under way: what it is for, its phase, for how long it and the phase last, the last line it said."""
    if progress is None:
        return None
    return {
        "actor": progress.actor,
        "kind": progress.kind,
        "settings": dict(progress.settings),
        "phase": progress.phase,
        "seconds": max(0.0, now - progress.begun),
        "phase_seconds": max(0.0, now - progress.phase_begun),
        "line": progress.line,
    }


def notices(standing: Iterable[Notice]) -> list[dict[str, Any]]:
    """What the operator should know now."""
    return [{"level": n.level, "text": n.text, "since": n.since} for n in standing]


def _number(history: History, name: str, labels: Labels | None = None) -> float | None:
    sample = history.latest(name, labels)
    return None if sample is None or isinstance(sample.value, Distribution) else sample.value


def _natural(text: str) -> tuple[int, int, str]:
    return (0, int(text), "") if text.isdigit() else (1, 0, text)
