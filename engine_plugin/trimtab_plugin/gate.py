"""The admission gate: open, or closed under a lease that reopens it by itself."""

from __future__ import annotations

import time
from collections.abc import Callable

MAX_LEASE_SECONDS = 120.0


class Gate:
    """Whether new requests are let in; times are seconds of `clock` (monotonic)."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._closed_until = 0.0
        self.retry_after = 1.0

    @property
    def closed(self) -> bool:
        return self._closed_until > 0.0 and self.lease_remaining_seconds is not None

    @property
    def lease_remaining_seconds(self) -> float | None:
        """Seconds until the gate reopens by itself, or None when it is open."""
        if self._closed_until:
            remaining = self._closed_until - self._clock()
            if remaining > 0:
                return remaining
            self._closed_until = 0.0
        return None

    def close(self, lease_seconds: float, retry_after: float) -> None:
        """Close for `lease_seconds` (above 0, to 120); `retry_after` (seconds) is what clients are told."""
        if not 0 < lease_seconds <= MAX_LEASE_SECONDS:
            raise ValueError(
                f"lease_seconds must be above 0 and at most {MAX_LEASE_SECONDS:g}, not {lease_seconds:g}"
            )
        self._closed_until = self._clock() + lease_seconds
        self.retry_after = retry_after

    def open(self) -> None:
        self._closed_until = 0.0
