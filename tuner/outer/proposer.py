"""Which start-up settings are worth a restart: the field's priors first, then a step from the best known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from change.server import Setting, Settings
from tuner.outer.memory import StartMemory, changed
from tuner.outer.settings import OuterSettings

VALUES: Mapping[str, tuple[Setting, ...]] = {
    "block_size": (16, 32, 64, 128, 256),
    "pipeline_parallel_size": (1, 2, 4, 8),
    "gpu_memory_utilization": (0.85, 0.9, 0.92, 0.95),
    "enable_prefix_caching": (False, True),
    "async_scheduling": (False, True),
    "quantization": (),
    "kv_cache_dtype": (),
    "data_parallel_size": (1, 2, 4, 8),
    "swap_space": (4, 8, 16),
}
"""Values of a knob in order, the likelier ones to matter first among the knobs; none of one the operator must give.

Tensor parallelism has no values of its own: it takes the cards that pipeline and data parallelism leave.
"""
CEILINGS: Mapping[str, float] = {"batch_max_tokens": 8192, "max_num_seqs": 256}
"""Chosen once, generously, so that the hot values have room below; the hot values themselves stay what they were."""
PRIORS: tuple[tuple[str, Settings], ...] = (
    ("the 235B guide on one Atlas 800I A2", {"block_size": 64, "pipeline_parallel_size": 4}),
)
PARALLEL = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")

ColdSource = Literal["past", "prior", "step"]


@dataclass(frozen=True, slots=True)
class ColdProposal:
    """Whole start-up settings to try, and where they came from."""

    settings: dict[str, Setting]
    source: ColdSource
    note: str | None = None


class ColdProposer:
    """Hands out candidates for one outer loop; none twice, none that the memory of starts speaks against."""

    def __init__(
        self,
        incumbent: Settings,
        allowed: OuterSettings,
        memory: StartMemory,
        past: Sequence[Settings] = (),
    ) -> None:
        self.skipped: list[str] = []
        self._incumbent = dict(incumbent)
        self._allowed = allowed
        self._memory = memory
        self._given = dict(allowed.values)
        self._seen: list[dict[str, Setting]] = []
        self._refused: set[tuple[str, Setting]] = set()
        self._queue = [ColdProposal(self._moved(p), "past", "winner of an earlier campaign") for p in past]
        self._queue += [ColdProposal(dict(values), "prior", origin) for origin, values in PRIORS]

    def propose(self, best: Settings | None) -> ColdProposal | None:
        """The next candidate; `best` is what looked better than the incumbent so far, None if nothing did."""
        while self._queue:
            found = self._queue.pop(0)
            if (made := self._made(found.settings, found.source, found.note)) is not None:
                return made
        for values in self._steps(self._incumbent if best is None else best):
            if (made := self._made(values, "step", None)) is not None:
                return made
        return None

    def refuse(self, settings: Settings) -> None:
        """These cannot start here: what they change alone is not proposed again."""
        moved = self._moved(settings)
        if len(moved) == 1:
            self._refused.update(moved.items())

    def _steps(self, centre: Settings) -> Iterator[dict[str, Setting]]:
        """One knob a step down, then up; the incumbent's neighbours and the parts of a prior come to the same."""
        whole = {**self._incumbent, **centre}
        moved = self._moved(whole)
        for name in self._knobs(whole):
            values = self._values(name)
            here = values.index(whole[name]) if whole.get(name) in values else None
            for place in (0,) if here is None else (here - 1, here + 1):
                if 0 <= place < len(values):
                    yield {**moved, name: values[place]}

    def _knobs(self, settings: Settings) -> list[str]:
        named = [name for name in (*self._allowed.allow, *self._allowed.knobs) if name not in settings]
        known = [name for name in VALUES if name in settings]
        # What was asked for by name and is not there is worth an answer before anything else is tried.
        return [name for name in (*named, *known) if self._allowed.may_move(name) is None]

    def _values(self, name: str) -> tuple[Setting, ...]:
        return self._given.get(name, VALUES.get(name, ()))

    def _moved(self, settings: Settings) -> dict[str, Setting]:
        """What differs from the incumbent, less what only makes room or follows from another knob."""
        derived = (*CEILINGS, "tensor_parallel_size")
        return {k: v for k, v in changed(settings, self._incumbent).items() if k not in derived}

    def _made(self, values: Settings, source: ColdSource, note: str | None) -> ColdProposal | None:
        kept: dict[str, Setting] = {}
        for name, value in values.items():
            reason = self._reason(name, value)
            if reason is None:
                kept[name] = value
            elif source != "step":
                self.skipped.append(f"{name} {value} ({note}): {reason}")
        if not self._moved({**self._incumbent, **kept}):
            return None
        whole = self._shaped({**self._incumbent, **kept})
        for settings in (self._roomy(whole), whole):
            if settings in self._seen:
                return None
            reason = self._memory.against(settings, self._incumbent)
            if reason is None:
                self._seen.append(settings)
                return ColdProposal(settings, source, note)
        if source != "step":
            self.skipped.append(f"{_text(kept)} ({note}): {reason}")
        return None

    def _reason(self, name: str, value: Setting) -> str | None:
        if (name, value) in self._refused:
            return "it cannot start here"
        if name in CEILINGS or name == "tensor_parallel_size":
            return "it follows from the others"
        if name not in self._incumbent and name not in (*self._allowed.allow, *self._allowed.knobs):
            return f"this engine does not say what its {name} is"
        mark = self._memory.marks.get(name)
        if mark is not None and value != self._incumbent.get(name):
            return str(mark)
        return self._allowed.may_move(name)

    def _shaped(self, settings: dict[str, Setting]) -> dict[str, Setting]:
        """Tensor parallelism takes the cards that the other two leave, where it is known."""
        if "tensor_parallel_size" not in settings:
            return settings
        cards = _product(self._incumbent, PARALLEL)
        rest = _product(settings, PARALLEL[1:])
        if rest and cards % rest == 0:
            return {**settings, "tensor_parallel_size": cards // rest}
        return settings

    def _roomy(self, settings: Mapping[str, Setting]) -> dict[str, Setting]:
        room = {
            name: max(least, value)
            for name, least in CEILINGS.items()
            if isinstance(value := settings.get(name), int | float)
        }
        return {**settings, **{name: int(value) for name, value in room.items()}}


def _product(settings: Settings, names: Sequence[str]) -> int:
    product = 1
    for name in names:
        product *= int(settings.get(name, 1))
    return product


def _text(settings: Settings) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items())
