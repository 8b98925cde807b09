"""Exact figures of finished requests, and token gaps by epoch, as the API process sees them.

The engine's stat logger calls `Ring.record` once per engine output. That only keeps references; the work of
turning them into records is done when somebody reads, against the history of epochs that is known by then. A
token or a finish counts in the epoch that was current when the API process received it, so the steps in
flight at a switch (one, or two under async scheduling) count in the new epoch.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable
from itertools import islice
from typing import Any

GAP_BASE_SECONDS = 1e-4
GAP_RATIO = 1.05
GAP_BUCKETS = 320

RING_RECORDS = 16384
PAGE_RECORDS = 1000
EPOCHS_KEPT = 64
PENDING_OUTPUTS = 4096
FIRST_TOKENS_KEPT = 65536

_PER_LOG = 1.0 / math.log(GAP_RATIO)


def gap_bucket(seconds: float) -> int:
    """Return the bucket of a token gap: at most 5% wide, the first and the last open."""
    if seconds < GAP_BASE_SECONDS * GAP_RATIO:
        return 0
    return min(GAP_BUCKETS - 1, int(math.log(seconds / GAP_BASE_SECONDS) * _PER_LOG))


class EpochLog:
    """When each epoch began, in Unix seconds on the engine's clock, as learnt from the engine process."""

    def __init__(self) -> None:
        self._epochs: list[int] = []
        self._starts: list[float] = []
        self.known_until = 0.0

    def learn(self, history: Iterable[tuple[int, float]], now: float) -> None:
        """Add the epochs of `history` (epoch, start) that are new; the log is then complete up to `now`."""
        for epoch, start in history:
            if not self._epochs or epoch > self._epochs[-1]:
                self._epochs.append(epoch)
                self._starts.append(start)
        del self._epochs[:-1024], self._starts[:-1024]
        self.known_until = max(self.known_until, now)

    def at(self, moment: float) -> int:
        """Return the epoch at `moment`; the oldest known for anything earlier, 0 while none is known."""
        if not self._epochs:
            return 0
        return self._epochs[max(0, bisect_right(self._starts, moment) - 1)]


class Ring:
    """The last finished requests and the token gaps of the last epochs."""

    def __init__(self) -> None:
        self.epochs = EpochLog()
        self.attached = False
        self.problem: str | None = None
        self._pending: deque[tuple[float, list[float], list[float], list[Any]]] = deque()
        self._records: deque[dict[str, Any]] = deque(maxlen=RING_RECORDS)
        self._next_seq = 1
        self._gaps: OrderedDict[int, dict[int, int]] = OrderedDict()
        self._first_tokens: OrderedDict[float, list[float]] = OrderedDict()

    def record(self, stats: Any) -> None:
        """Take one vLLM `IterationStats`: nothing is copied or computed here."""
        pending = self._pending
        pending.append(
            (
                stats.iteration_timestamp,
                stats.time_to_first_tokens_iter,
                stats.inter_token_latencies_iter,
                stats.finished_requests,
            )
        )
        if len(pending) > PENDING_OUTPUTS:
            self.flush(pending[-1][0])

    def flush(self, until: float) -> None:
        """Turn what was recorded up to `until` (Unix seconds) into records and histograms."""
        pending = self._pending
        while pending and pending[0][0] <= until:
            now, first, gaps, finished = pending.popleft()
            for latency in first:
                # Both were computed as now - arrival on doubles this close together, which is exact: the
                # arrival is the same double again when the request finishes.
                self._first_tokens.setdefault(now - latency, []).append(now)
            if gaps:
                self._count(self.epochs.at(now), gaps)
            for request in finished:
                self._finish(now, request)
        while len(self._first_tokens) > FIRST_TOKENS_KEPT:
            self._first_tokens.popitem(last=False)

    def page(self, since: int) -> dict[str, Any]:
        """Return the flushed records with seq above `since`, oldest first, and the gap histograms."""
        last = self._next_seq - 1
        oldest = self._next_seq - len(self._records)
        since = min(since, last)
        start = max(0, since + 1 - oldest)
        records = list(islice(self._records, start, start + PAGE_RECORDS))
        return {
            "next_since": records[-1]["seq"] if records else last,
            "lost": max(0, oldest - since - 1),
            "records": records,
            "gaps": {
                str(epoch): {str(b): n for b, n in sorted(g.items())} for epoch, g in self._gaps.items()
            },
        }

    def _count(self, epoch: int, gaps: list[float]) -> None:
        counts = self._gaps.get(epoch)
        if counts is None:
            counts = self._gaps[epoch] = {}
            while len(self._gaps) > EPOCHS_KEPT:
                self._gaps.popitem(last=False)
        # Requests that ran in both of two steps have the same gap to the last bit: few values, many times.
        for gap, times in Counter(gaps).items():
            bucket = gap_bucket(gap)
            counts[bucket] = counts.get(bucket, 0) + times

    def _finish(self, now: float, request: Any) -> None:
        arrival = now - request.e2e_latency
        first_token = (
            self._first_token(arrival, now - request.decode_time) if request.num_generation_tokens else None
        )
        epoch = self.epochs.at
        self._records.append(
            {
                "seq": self._next_seq,
                "arrival": arrival,
                "first_token": first_token,
                "finish": now,
                "epoch_arrival": epoch(arrival),
                "epoch_first_token": None if first_token is None else epoch(first_token),
                "epoch_finish": epoch(now),
                "prompt_tokens": request.num_prompt_tokens,
                "output_tokens": request.num_generation_tokens,
                "cached_tokens": getattr(request, "num_cached_tokens", 0),
                "queued_seconds": max(0.0, request.queued_time),
                "prefill_seconds": max(0.0, request.prefill_time),
                "decode_seconds": max(0.0, request.decode_time),
                "preemptions": getattr(request, "num_preemptions", 0),
                "reason": str(request.finish_reason),
            }
        )
        self._next_seq += 1

    def _first_token(self, arrival: float, estimate: float) -> float:
        """Return when the first token of the request reached this process.

        Requests that share an arrival to the last bit (the choices of one call) are told apart by `estimate`.
        """
        seen = self._first_tokens.get(arrival)
        if not seen:
            return estimate
        nearest = min(seen, key=lambda moment: abs(moment - estimate))
        seen.remove(nearest)
        if not seen:
            del self._first_tokens[arrival]
        return nearest


RING = Ring()
"""The one ring of this API server process: the stat logger writes it, the HTTP side reads it."""
