"""Request records for the tests of windows and guards."""

from __future__ import annotations

from change.engine import RequestRecord


def record(
    arrival: float,
    ttft: float = 0.1,
    gap: float = 0.02,
    tokens: int = 11,
    *,
    epoch: int = 1,
    prompt: int = 128,
    reason: str = "stop",
    seq: int = 0,
    epoch_arrival: int | None = None,
    epoch_finish: int | None = None,
) -> RequestRecord:
    """One finished request: `ttft` and `gap` in seconds, `tokens` of output."""
    first = arrival + ttft
    finish = first + gap * (tokens - 1)
    return RequestRecord(
        seq=seq,
        arrival=arrival,
        first_token=first,
        finish=finish,
        epoch_arrival=epoch if epoch_arrival is None else epoch_arrival,
        epoch_first_token=epoch,
        epoch_finish=epoch if epoch_finish is None else epoch_finish,
        prompt_tokens=prompt,
        output_tokens=tokens,
        cached_tokens=0,
        queued_seconds=0.0,
        prefill_seconds=ttft,
        decode_seconds=finish - first,
        preemptions=0,
        reason=reason,
    )
