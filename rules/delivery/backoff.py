"""When to try again: pauses that double, with some chance in them so that not all come back at once."""

from __future__ import annotations

from random import Random

SPREAD = 0.2


class Backoff:
    """The pause after failures in a row; `first` and `longest` are seconds, `seed` draws the spread of 20%."""

    def __init__(self, seed: str, *, first: float = 1.0, longest: float = 30.0) -> None:
        if not 0 < first <= longest:
            raise ValueError(
                f"first and longest pause: expected 0 < first <= longest, got {first} and {longest}"
            )
        self._random = Random(seed)
        self._first = first
        self._longest = longest
        self._pause = first
        self._until = 0.0

    def ready(self, now: float) -> bool:
        """Whether it may be tried; a clock that was set back does not make the pause longer."""
        return now >= self._until or self._until - now > 2 * max(self._longest, self._pause)

    def failed(self, now: float, at_least: float | None = None) -> None:
        """Wait, and longer than after the failure before; `at_least` seconds where the target said so."""
        pause = self._pause * (1.0 + SPREAD * (2.0 * self._random.random() - 1.0))
        asked = 0.0 if at_least is None else min(max(at_least, 0.0), 2 * self._longest)
        self._until = now + max(pause, asked)
        self._pause = min(self._pause * 2, self._longest)

    def succeeded(self) -> None:
        """Begin anew."""
        self._pause, self._until = self._first, 0.0
