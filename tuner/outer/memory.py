"""What is known of starts: which settings failed, which took no hold, and how likely others are to fail.

Running out of memory is monotone: settings that want at least as much of everything as ones that failed are likely to
fail as well, and those that want no more than ones that served are likely to serve. Other failures say nothing of
other settings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from change.server import Setting, Settings
from collectors.logs.memory import parse_out_of_memory

MEMORY_KNOBS = (
    "gpu_memory_utilization",
    "batch_max_tokens",
    "max_num_seqs",
    "max_model_len",
    "cudagraph_max_size",
)
"""More of any of these needs more device memory at start."""
PRIOR_FAILURES = 0.1
PRIOR_STARTS = 1.0
FAILURE_WEIGHT = 4.0
"""How many starts that served an out-of-memory weighs: one is nearly proof for whatever wants as much or more."""
FLUKE_WEIGHT = 0.5
"""The same where a start that wanted as much has served: several are needed to speak against others."""
MOST_RISK = 0.5
IDLE_FREE = 0.9
"""Share of a card that is free at least where nobody holds any of it: the driver takes a few percent."""
OTHERS_SHARE = 0.3
"""Share of a card outside the engine's allocator and not free, above which it is not its own graphs and buffers."""
_MEMORY = re.compile(
    r"out of memory|no available memory|available kv cache memory|free memory on device|oom", re.I
)
_FREE = re.compile(r"free memory on device \(([\d.]+)/([\d.]+) GiB\)", re.I)
"""vLLM's word where less is free at start, before it has allocated anything, than it was asked to take."""
_NOT_BACK = re.compile(r"GiB of \S+ are not back, held by", re.I)
"""The cold lane's word where the memory of the engine before is not free again."""


@dataclass(frozen=True, slots=True)
class Start:
    """One start of this engine in this version, as it is remembered."""

    settings: Settings
    effective: Settings
    outcome: Literal["served", "failed"]
    reason: str = ""

    @property
    def out_of_memory(self) -> bool:
        """Whether it failed for want of device memory that no one else had."""
        return self.outcome == "failed" and _MEMORY.search(self.reason) is not None and not self.of_others

    @property
    def of_others(self) -> bool:
        """Whether it failed as others held the cards' memory: that says nothing of what was asked for."""
        if self.outcome != "failed":
            return False
        free = _FREE.search(self.reason)
        if free is not None:
            return float(free[1]) < IDLE_FREE * float(free[2])
        said = parse_out_of_memory(self.reason)
        if said is not None and said.capacity_bytes and None not in (said.reserved_bytes, said.free_bytes):
            rest = said.capacity_bytes - (said.reserved_bytes or 0.0) - (said.free_bytes or 0.0)
            return rest > OTHERS_SHARE * said.capacity_bytes
        return _NOT_BACK.search(self.reason) is not None


@dataclass(frozen=True, slots=True)
class Mark:
    """A knob that the engine does not honour: what was asked, and what it had in its place."""

    knob: str
    requested: Setting
    effective: Setting | None

    def __str__(self) -> str:
        """In words."""
        had = "does not say what it has" if self.effective is None else f"has {self.effective}"
        return f"{self.knob} {self.requested} was asked for and the engine {had}"


def unlike(requested: Settings, effective: Settings) -> list[Mark]:
    """The settings that were asked for and are not in effect; one the engine says nothing of is not held against it."""
    return [
        Mark(name, value, effective[name])
        for name, value in sorted(requested.items())
        if name in effective and not _same(value, effective[name])
    ]


def taken(requested: Settings, effective: Settings, marks: Sequence[Mark]) -> dict[str, Setting]:
    """What is in effect in the words of the request: as asked, however the engine spells it, but for `marks`."""
    as_asked = {name: value for name, value in requested.items() if name in effective}
    return {
        **effective,
        **as_asked,
        **{mark.knob: mark.effective for mark in marks if mark.effective is not None},
    }


class StartMemory:
    """Starts seen so far, of this campaign and of earlier ones."""

    def __init__(self, starts: Sequence[Start] = ()) -> None:
        self._starts = list(starts)

    def add(self, start: Start) -> None:
        """Remember one more."""
        self._starts.append(start)

    @property
    def marks(self) -> dict[str, Mark]:
        """Knobs that took no hold, by name."""
        found: dict[str, Mark] = {}
        for start in self._starts:
            if start.outcome == "served":
                for mark in unlike(start.settings, start.effective):
                    found.setdefault(mark.knob, mark)
        return found

    def failed(self, settings: Settings) -> Start | None:
        """The failed start of exactly these settings, if there was one: they are never tried again."""
        for start in self._starts:
            if start.outcome == "failed" and not start.of_others and _alike(start.settings, settings):
                return start
        return None

    def risk(self, settings: Settings) -> float:
        """Probability that a start with these settings fails, 0 to 1."""
        failures, starts = PRIOR_FAILURES, PRIOR_STARTS
        for start in self._starts:
            if start.outcome == "served" and _wants_no_more(settings, start.settings):
                starts += 1.0
            elif start.out_of_memory and _wants_no_more(start.settings, settings):
                weight = FLUKE_WEIGHT if self._contradicted(start) else FAILURE_WEIGHT
                failures += weight
                starts += weight
        return failures / starts

    def _contradicted(self, failed: Start) -> bool:
        """Whether as much memory or more served at another time: then it was not for what was asked for alone."""
        return any(
            start.outcome == "served" and _wants_no_more(failed.settings, start.settings)
            for start in self._starts
        )

    def against(self, settings: Settings, incumbent: Settings) -> str | None:
        """Why these are not worth a restart, or None."""
        if (known := self.failed(settings)) is not None:
            return f"the same settings failed before: {known.reason}"
        for name, mark in self.marks.items():
            if name in settings and not _same(settings[name], incumbent.get(name)):
                return f"{mark}: its other values are not tried"
        risk = self.risk(settings)
        return f"a start would fail with a probability of {risk:.0%}" if risk > MOST_RISK else None


def _wants_no_more(one: Settings, other: Settings) -> bool:
    """Whether `one` needs at most the memory that `other` does, as far as that is comparable."""
    shapes = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "quantization")
    if any(not _same(one.get(name), other.get(name)) for name in shapes):
        return False
    return all(_number(one, name) <= _number(other, name) for name in MEMORY_KNOBS)


def _number(settings: Settings, name: str) -> float:
    value = settings.get(name, 0)
    return 0.0 if isinstance(value, str) else float(value)


def _alike(one: Settings, other: Settings) -> bool:
    return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)


def _same(one: Setting | None, other: Setting | None) -> bool:
    numbers = isinstance(one, int | float) and isinstance(other, int | float)
    return float(one) == float(other) if numbers else one == other  # type: ignore[arg-type]


def changed(settings: Settings, incumbent: Settings) -> Mapping[str, Setting]:
    """The settings that differ from the incumbent's."""
    return {name: value for name, value in settings.items() if not _same(value, incumbent.get(name))}
