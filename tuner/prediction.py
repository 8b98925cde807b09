"""What the next minutes will bring, from what the last requests were: lengths and arrivals as exponential averages.

After every window of finished requests each figure becomes 0.9 of the old one and 0.1 of the window's, as the field's
guide for dynamic batching has it; variances are kept the same way.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from change.engine import RequestRecord

WINDOW = 100
"""Finished requests in a window."""
WINDOW_SECONDS = 60.0
LEAST = 20
"""A window also ends after so many seconds, if it holds so many requests: under thin traffic it would be too late."""
KEEP = 0.9


@dataclass(frozen=True, slots=True)
class Forecast:
    """Tokens, seconds, requests per second."""

    held: float
    """KV tokens that a running request holds, on average over its time in the engine."""
    held_sd: float
    """Their standard deviation from request to request."""
    rate: float
    """Arrivals per second."""
    rate_sd: float
    """Their standard deviation from window to window."""
    service: float
    """Seconds from admission to the last token."""

    @property
    def running(self) -> float:
        """Requests that would run at once if all who come were admitted (Little's law)."""
        return self.rate * self.service

    def at_once(self, deviations: float) -> float:
        """The same, for arrivals `deviations` above their average: by their own variance and by chance."""
        rate = self.rate + deviations * self.rate_sd
        return rate * self.service + deviations * math.sqrt(max(self.running, 0.0))


@dataclass(slots=True)
class _Window:
    """The sums of one window."""

    begun: float
    inside: float
    requests: int = 0
    weight: float = 0.0
    held: float = 0.0
    held_squares: float = 0.0
    service: float = 0.0

    def add(self, record: RequestRecord) -> None:
        # A request is met in the engine as often as it takes steps, so that long answers count more.
        prompt, output = float(record.prompt_tokens), float(max(record.output_tokens, 1))
        self.requests += 1
        self.weight += output
        self.held += output * (prompt + output / 2)
        self.held_squares += output * (prompt * prompt + prompt * output + output * output / 3)
        self.service += record.prefill_seconds + record.decode_seconds


class Predictor:
    """Averages over windows of finished requests."""

    def __init__(self) -> None:
        self._window: _Window | None = None
        self._held = self._squares = self._rate = self._rate_variance = self._service = 0.0
        self._windows = 0

    @property
    def forecast(self) -> Forecast | None:
        """What is expected; None before the first whole window."""
        if self._windows == 0:
            return None
        variance = max(self._squares - self._held**2, 0.0)
        return Forecast(
            self._held,
            math.sqrt(variance),
            max(self._rate, 0.0),
            math.sqrt(self._rate_variance),
            self._service,
        )

    def note(self, now: float, records: Iterable[RequestRecord], inside: float) -> None:
        """Take in what finished since the last call; `inside` are the requests that run or wait now."""
        if self._window is None:
            self._window = _Window(now, inside)
        for record in records:
            if record.output_tokens > 0:
                self._window.add(record)
        window = self._window
        seconds = now - window.begun
        full = window.requests >= WINDOW or (window.requests >= LEAST and seconds >= WINDOW_SECONDS)
        if full and seconds > 0:
            self._close(window, seconds, inside)
            self._window = _Window(now, inside)

    def _close(self, window: _Window, seconds: float, inside: float) -> None:
        rate = max((window.requests + inside - window.inside) / seconds, 0.0)
        held, squares = window.held / window.weight, window.held_squares / window.weight
        service = window.service / window.requests
        keep = KEEP if self._windows else 0.0
        if self._windows:
            self._rate_variance = KEEP * self._rate_variance + (1 - KEEP) * (rate - self._rate) ** 2
        self._held = keep * self._held + (1 - keep) * held
        self._squares = keep * self._squares + (1 - keep) * squares
        self._rate = keep * self._rate + (1 - keep) * rate
        self._service = keep * self._service + (1 - keep) * service
        self._windows += 1
