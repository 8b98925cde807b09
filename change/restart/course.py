"""The course of one restart: which phase it is in, how long each took, and a line of progress for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from change.clock import Clock
from change.restart.order import Phase

OF_THE_ENGINE: frozenset[Phase] = frozenset({"drain", "stop", "release", "load"})
"""Phases whose length is the engine's own: its users' requests, its end, its memory, its load."""


class Course:
    """Measures; phases of a way back add to those of the failed start."""

    def __init__(self, clock: Clock, say: Callable[[str], None]) -> None:
        self._clock = clock
        self._say = say
        self.seconds: dict[Phase, float] = {}
        self.phase: Phase = "preflight"
        self._closed: float | None = None
        self.down_seconds = 0.0
        self.unattended = False
        """Whether the hand was told in vain that somebody is at work; said once."""

    @contextmanager
    def during(self, phase: Phase) -> Iterator[None]:
        """Count the time of a phase; its line is said when it begins and when it is over."""
        begun = self._clock.now()
        self.phase = phase
        self._say(f"{phase}: begun")
        try:
            yield
        finally:
            took = self._clock.now() - begun
            self.seconds[phase] = self.seconds.get(phase, 0.0) + took
        self._say(f"{phase}: done in {took:.1f} s")

    def gate_closed(self) -> None:
        """From now on users wait."""
        if self._closed is None:
            self._closed = self._clock.now()

    def gate_open(self) -> None:
        """Users wait no more; a second closing adds to the first."""
        if self._closed is not None:
            self.down_seconds += self._clock.now() - self._closed
            self._closed = None

    @property
    def own_seconds(self) -> float:
        """What of the time lost was neither the engine's drain and end nor its load."""
        engine = sum(took for phase, took in self.seconds.items() if phase in OF_THE_ENGINE)
        return max(0.0, self.down_seconds - engine)

    def say(self, text: str) -> None:
        """Say a line inside the phase."""
        self._say(f"{self.phase}: {text}")
