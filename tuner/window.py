"""A window: a measured interval under one config, from request records and token-gap counts to figures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from change.engine import GAP_BASE_SECONDS, GAP_RATIO, RequestRecord
from tuner.settings import QUANTILES, LatencyName, Limit, Slo

GapCounts = Mapping[int, int]
Metrics = dict[str, float]


@dataclass(frozen=True, slots=True)
class Interval:
    """When one config was measured: `applied` is when it took hold, `start` the end of the washout."""

    epoch: int
    applied: float
    start: float
    end: float

    @property
    def seconds(self) -> float:
        """Length of the measured part."""
        return self.end - self.start


def quantile(ordered: Sequence[float], q: float) -> float:
    """Linear interpolation between the order statistics of a sorted, non-empty sequence."""
    place = q * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def gap_seconds(bucket: float) -> float:
    """Lower edge of a (fractional) token-gap bucket."""
    return float(GAP_BASE_SECONDS * GAP_RATIO**bucket)


def gap_quantile(counts: GapCounts, q: float) -> float | None:
    """Quantile of the token gaps, interpolated on the log scale inside its bucket; None without gaps."""
    total = sum(counts.values())
    if total == 0:
        return None
    rank = q * total
    seen = 0
    for bucket in sorted(counts):
        here = counts[bucket]
        if here and seen + here >= rank:
            return gap_seconds(bucket + max(0.0, rank - seen) / here)
        seen += here
    return gap_seconds(max(counts) + 1)


def gap_mean(counts: GapCounts) -> float | None:
    """Mean token gap by bucket middles; None without gaps."""
    total = sum(counts.values())
    if total == 0:
        return None
    return sum(count * gap_seconds(bucket + 0.5) for bucket, count in counts.items()) / total


def gap_difference(later: GapCounts, earlier: GapCounts) -> dict[int, int]:
    """Gaps counted between two readings of one epoch's cumulative counts."""
    return {
        bucket: count - earlier.get(bucket, 0)
        for bucket, count in later.items()
        if count > earlier.get(bucket, 0)
    }


def request_latency(record: RequestRecord, name: LatencyName) -> float | None:
    """One request's TTFT, mean token gap or end-to-end time in seconds; None where it has none."""
    if name == "e2e":
        return record.finish - record.arrival
    if record.first_token is None:
        return None
    if name == "ttft":
        return record.first_token - record.arrival
    if record.output_tokens < 2:
        return None
    return (record.finish - record.first_token) / (record.output_tokens - 1)


def failed(record: RequestRecord) -> bool:
    """Whether the server ended the request with an error (a client's own abort is not one)."""
    return record.reason == "error"


def meets(record: RequestRecord, limits: Mapping[LatencyName, Limit]) -> bool:
    """Whether one request is within every limit it is held to; a latency it does not have breaks none."""
    if failed(record):
        return False
    for name, limit in limits.items():
        taken = request_latency(record, name)
        if taken is not None and taken > limit.seconds:
            return False
    return True


def measure(records: Iterable[RequestRecord], gaps: GapCounts, interval: Interval, slo: Slo) -> Metrics:
    """Figures of one window; a figure that has nothing behind it is absent.

    TTFT counts requests whose first token fell in the window and in its epoch; gaps are the epoch's own; e2e counts
    requests that the epoch holds whole. Seconds, tokens per second, shares 0 to 1.
    """
    metrics: Metrics = {}
    limits = slo.request_limits()
    ttft: list[float] = []
    e2e: list[float] = []
    held = met = met_tokens = errors = first_tokens = 0
    for record in records:
        if failed(record) and interval.start <= record.finish < interval.end:
            errors += 1
        first = record.first_token
        if (
            first is not None
            and interval.start <= first < interval.end
            and record.epoch_first_token == interval.epoch
        ):
            first_tokens += 1
            ttft.append(first - record.arrival)
            held += 1
            if meets(record, limits):
                met += 1
                met_tokens += record.output_tokens
        if (
            interval.start <= record.finish < interval.end
            and record.epoch_arrival == record.epoch_finish == interval.epoch
            and not failed(record)
        ):
            e2e.append(record.finish - record.arrival)
    for name, values in (("ttft", ttft), ("e2e", e2e)):
        values.sort()
        if values:
            metrics[f"{name}_mean_seconds"] = sum(values) / len(values)
            for q in QUANTILES:
                metrics[f"{name}_p{q * 100:.0f}_seconds"] = quantile(values, q)
    mean_gap = gap_mean(gaps)
    if mean_gap is not None:
        metrics["itl_mean_seconds"] = mean_gap
        for q in QUANTILES:
            metrics[f"itl_p{q * 100:.0f}_seconds"] = gap_quantile(gaps, q) or mean_gap
    metrics["requests"] = held
    metrics["failed_requests"] = errors
    metrics["output_tokens_per_second"] = (sum(gaps.values()) + first_tokens) / interval.seconds
    if held and limits:
        metrics["slo_met_requests"] = met
        metrics["slo_share"] = met / held
        metrics["good_tokens_per_second"] = met_tokens / interval.seconds
    return metrics


def offered_wait(
    arrivals: Sequence[tuple[float, int]], tokens_per_second: float, interval: Interval
) -> float:
    """Mean wait in seconds of the window's arrivals in a reference server of a fixed speed (Lindley's recursion).

    It sees only what arrived, never what the config did, so it can be regressed out of a comparison. `arrivals` are
    (time, prompt tokens) sorted by time and reach back before the window.
    """
    backlog = total = 0.0
    last = None
    count = 0
    for time, tokens in arrivals:
        if time >= interval.end:
            break
        if last is not None:
            backlog = max(0.0, backlog - (time - last))
        last = time
        if time >= interval.start:
            total += backlog
            count += 1
        backlog += tokens / tokens_per_second
    return total / count if count else 0.0


def covariates(records: Iterable[RequestRecord], interval: Interval, tokens_per_second: float) -> Metrics:
    """What the traffic brought in one window, whatever the config: tokens, lengths, burstiness.

    `tokens_per_second` is the reference server's speed for `offered_wait`, fixed for a campaign.
    """
    reach = interval.start - max(interval.seconds, 10.0)
    recent = sorted(
        (record.arrival, record.prompt_tokens, record.output_tokens)
        for record in records
        if reach <= record.arrival < interval.end
    )
    prompt = output = count = 0
    for time, prompt_tokens, output_tokens in recent:
        if time >= interval.start:
            prompt += prompt_tokens
            output += output_tokens
            count += 1
    return {
        "prompt_tokens_per_second": prompt / interval.seconds,
        "output_tokens_per_request": output / count if count else 0.0,
        "prompt_tokens_per_request": prompt / count if count else 0.0,
        "requests_per_second": count / interval.seconds,
        "offered_wait_seconds": offered_wait(
            [(time, tokens) for time, tokens, _ in recent], tokens_per_second, interval
        ),
    }
