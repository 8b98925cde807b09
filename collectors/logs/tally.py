"""Counts events by signature and source: a repeat is counted and not told again until it has been quiet."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from collectors.logs.events import Event
from collectors.logs.memory import OutOfMemory
from collectors.sample import Sample, labels

QUIET_SECONDS = 300.0
MAX_EPISODES = 200
MAX_DEVICES = 64
"""Devices of which the last out-of-memory figures are kept."""


@dataclass(frozen=True, slots=True)
class Episode:
    """A signature's events from a first one until it is quiet: what the doctor shows.

    `first` and `last` are Unix times of reading in seconds, `count` all occurrences, `event` the first one.
    """

    source: str
    path: str | None
    event: Event
    first: float
    last: float
    count: int
    over: bool = False


@dataclass(slots=True)
class _Total:
    count: int
    last: float | None


def _at_present(event: Event) -> bool:
    return True


class Tally:
    """What was seen since the start, in bounded memory."""

    def __init__(self, *, quiet_seconds: float = QUIET_SECONDS, max_episodes: int = MAX_EPISODES) -> None:
        if quiet_seconds <= 0 or max_episodes < 1:
            raise ValueError(
                f"quiet_seconds is positive and max_episodes at least 1, got {quiet_seconds}, {max_episodes}"
            )
        self._quiet = quiet_seconds
        self._max_episodes = max_episodes
        self._totals: dict[tuple[str, str, str], _Total] = {}
        self._open: dict[tuple[str, str], int] = {}
        self._episodes: OrderedDict[int, Episode] = OrderedDict()
        self._next = 0
        self._memory: OrderedDict[tuple[str, str], tuple[OutOfMemory, float]] = OrderedDict()
        self._begun: list[Episode] = []
        self._ended: list[Episode] = []

    def add(
        self,
        source: str,
        path: str | None,
        events: Iterable[Event],
        now: float,
        present: Callable[[Event], bool] = _at_present,
    ) -> None:
        """Count the events read of a source at `now`; one that is not `present` happened long before it was read."""
        for event in events:
            signature = event.signature
            total = self._totals.setdefault((signature.id, signature.severity, source), _Total(0, None))
            total.count += event.count
            if present(event):
                total.last = now
            self._lengthen(source, path, event, now)
            if event.memory is not None:
                device = "" if event.memory.device is None else str(event.memory.device)
                self._memory[source, device] = (event.memory, now)
                self._memory.move_to_end((source, device))
                if len(self._memory) > MAX_DEVICES:
                    self._memory.popitem(last=False)

    def told(self, now: float) -> tuple[list[Episode], list[Episode]]:
        """What is to be said now: episodes that began, and those that are over after more than one event."""
        for key, number in list(self._open.items()):
            episode = self._episodes.get(number)
            if episode is None or now - episode.last < self._quiet:
                continue
            self._end(key, number, episode)
        begun, ended = self._begun, self._ended
        self._begun, self._ended = [], []
        return begun, ended

    def episodes(self) -> list[Episode]:
        """The latest episodes, those with the newest event last."""
        return sorted(self._episodes.values(), key=lambda episode: episode.last)

    def samples(self, now: float) -> list[Sample]:
        """Counters and times of the last event, and the figures of the last out-of-memory error of each device."""
        found: list[Sample] = []
        for (signature, severity, source), total in self._totals.items():
            own = labels(signature=signature, severity=severity, source=source)
            found.append(Sample("trimtab_log_events_total", float(total.count), now, own))
            if total.last is not None:
                found.append(Sample("trimtab_log_event_time_seconds", total.last, now, own))
        for (source, device), (memory, _) in self._memory.items():
            own = labels(source=source, device=device) if device else labels(source=source)
            found += [
                Sample(f"npu_out_of_memory_{name}", value, now, own)
                for name, value in memory.figures().items()
            ]
        return found

    def _lengthen(self, source: str, path: str | None, event: Event, now: float) -> None:
        key = (event.signature.id, source)
        number = self._open.get(key)
        episode = self._episodes.get(number) if number is not None else None
        if episode is not None and number is not None and now - episode.last < self._quiet:
            self._episodes[number] = Episode(
                source, episode.path, episode.event, episode.first, now, episode.count + event.count
            )
            return
        if episode is not None and number is not None:
            self._end(key, number, episode)
        begun = Episode(source, path, event, now, now, event.count)
        self._open[key] = self._next
        self._episodes[self._next] = begun
        self._next += 1
        self._begun.append(begun)
        self._forget()

    def _end(self, key: tuple[str, str], number: int, episode: Episode) -> None:
        over = Episode(
            episode.source, episode.path, episode.event, episode.first, episode.last, episode.count, over=True
        )
        self._episodes[number] = over
        del self._open[key]
        if over.count > over.event.count:
            self._ended.append(over)

    def _forget(self) -> None:
        """Drop the oldest episodes, those first that are over: one that goes on must not be told anew."""
        while len(self._episodes) > self._max_episodes:
            numbers = [number for number, episode in self._episodes.items() if episode.over]
            dropped = numbers[0] if numbers else next(iter(self._episodes))
            key = (self._episodes[dropped].event.signature.id, self._episodes[dropped].source)
            del self._episodes[dropped]
            if self._open.get(key) == dropped:
                del self._open[key]
