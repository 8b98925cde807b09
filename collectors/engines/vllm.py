"""vLLM's /metrics page, in every spelling and version, as canonical samples."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from collectors.combine import combine_distributions, combine_values
from collectors.legacy import legacy_samples
from collectors.metrics import METRICS
from collectors.page import PageSource
from collectors.prometheus_text import PageError, PageParser, Point, Shape
from collectors.sample import CollectorError, Distribution, Labels, Sample


@dataclass(frozen=True, slots=True)
class Family:
    """A canonical name and what vLLM called it, the newest name first, without the `vllm:` before it."""

    canonical: str
    names: tuple[str, ...]


FAMILIES = (
    Family("trimtab_engine_requests_running", ("num_requests_running",)),
    Family("trimtab_engine_requests_waiting", ("num_requests_waiting",)),
    Family("trimtab_engine_requests_waiting_by_reason", ("num_requests_waiting_by_reason",)),
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

CACHE_CONFIG = "cache_config_info"
START_TIME = "process_start_time_seconds"
HTTP_REQUESTS = "http_requests_total"
_PREFIXES = ("vllm:", "vllm_")
_LABELS = {"engine": "engine", "model_name": "model", "reason": "reason", "finished_reason": "reason"}


def wanted_families() -> dict[str, Shape]:
    """Every family that is read, in every spelling and version."""
    wanted: dict[str, Shape] = {START_TIME: "scalar", HTTP_REQUESTS: "scalar"}
    for prefix in _PREFIXES:
        wanted[prefix + CACHE_CONFIG] = "scalar"
        for family in FAMILIES:
            shape: Shape = "histogram" if METRICS[family.canonical].kind == "histogram" else "scalar"
            wanted.update(dict.fromkeys((prefix + name for name in family.names), shape))
    return wanted


_PARSER = PageParser(wanted_families())


def parse_vllm(text: str, now: float) -> list[Sample]:
    """Canonical samples of a whole page, timed `now` (Unix seconds).

    Raises PageError if the page is cut off, has no line of vLLM's, or is malformed where it matters.
    """
    by_family: dict[str, list[Point]] = {}
    for point in _PARSER.parse(text):
        by_family.setdefault(point.family, []).append(point)
    samples: list[Sample] = []
    for family in FAMILIES:
        points = _newest(by_family, family.names)
        samples.extend(_canonical(family.canonical, points, now))
    for point in _newest(by_family, (CACHE_CONFIG,)):
        samples.extend(_cache_config(point, now))
    if not samples:
        raise PageError(
            "the page has none of vLLM's metrics: is it vLLM, and was it started without --disable-log-stats?"
        )
    samples.extend(
        Sample("trimtab_engine_start_time_seconds", point.value, now)
        for point in by_family.get(START_TIME, [])[:1]
        if isinstance(point.value, float)
    )
    samples.extend(_http_errors(by_family.get(HTTP_REQUESTS, []), now))
    return samples + legacy_samples(samples)


def _http_errors(points: list[Point], now: float) -> list[Sample]:
    """The server's own count; absent until it has answered anything."""
    answered = [(dict(point.labels), point.value) for point in points if isinstance(point.value, float)]
    inference = [
        (labels, value) for labels, value in answered if labels.get("handler", "").startswith("/v1/")
    ]
    errors = sum(value for labels, value in inference if labels.get("status", "").startswith("5"))
    return [Sample("trimtab_engine_http_errors_total", errors, now)] if inference else []


def _newest(by_family: dict[str, list[Point]], names: tuple[str, ...]) -> list[Point]:
    for name in names:
        for prefix in _PREFIXES:
            if found := by_family.get(prefix + name):
                return found
    return []


def _canonical(name: str, points: list[Point], now: float) -> list[Sample]:
    metric = METRICS[name]
    values: dict[Labels, list[float | Distribution]] = {}
    for point in points:
        if point.value == point.value:  # a value that is not a number is no reading
            values.setdefault(_labels(point.labels, metric.labels), []).append(point.value)
    samples: list[Sample] = []
    for pairs, found in values.items():
        distributions = [value for value in found if isinstance(value, Distribution)]
        numbers = [value for value in found if not isinstance(value, Distribution)]
        value = (
            combine_distributions(distributions) if distributions else combine_values(numbers, metric.combine)
        )
        samples.append(Sample(name, value, now, pairs))
    return samples


def _labels(pairs: Labels, allowed: tuple[str, ...]) -> Labels:
    """Canonical labels; an engine without a number (the first generation's) is engine 0."""
    found = {"engine": "0"}
    for key, value in pairs:
        name = _LABELS.get(key)
        if name in allowed:
            found[name] = value
    return tuple(sorted(found.items()))


def _cache_config(point: Point, now: float) -> list[Sample]:
    pairs = dict(point.labels)
    kept = _labels(point.labels, ("engine", "model"))
    samples: list[Sample] = []
    for label, name in (
        ("num_gpu_blocks", "trimtab_engine_kv_cache_blocks"),
        ("block_size", "trimtab_engine_kv_cache_block_tokens"),
    ):
        text = pairs.get(label, "")
        if text.isdecimal():  # "None" until the engine has sized its cache
            samples.append(Sample(name, float(text), now, kept))
    return samples


class VllmCollector:
    """Scrapes one vLLM server.

    `url` is the server's address, `root_path` what its proxy puts before its routes. `api_key` goes into the
    Authorization header only. See `PageSource` for TLS and the limits.
    """

    name = "vllm"

    def __init__(
        self,
        url: str,
        *,
        root_path: str = "",
        api_key: str | None = None,
        ca_file: Path | None = None,
        verify: bool = True,
        interval_seconds: float = 1.0,
        timeout_seconds: float = 3.0,
        max_bytes: int = 16 * 1024 * 1024,
    ) -> None:
        path = f"/{root_path.strip('/')}" if root_path.strip("/") else ""
        self.interval_seconds = interval_seconds
        self._source = PageSource(
            f"{url.rstrip('/')}{path}/metrics",
            headers={"Authorization": f"Bearer {api_key}"} if api_key else None,
            ca_file=ca_file,
            verify=verify,
            timeout_seconds=timeout_seconds,
            max_bytes=max_bytes,
        )

    async def collect(self, now: float) -> list[Sample]:
        """Scrape once; raises CollectorError."""
        text = await self._source.fetch()
        try:
            # A page of several engines takes long enough to hold up the event loop.
            return await asyncio.to_thread(parse_vllm, text, now)
        except PageError as failure:
            raise CollectorError(f"{self._source.url}: {failure}") from failure
