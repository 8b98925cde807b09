"""Operators that run one after the other and exist as one fused operator too."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from collectors.profile.model import Neighbours

FAMILIES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("AddNorm", re.compile(r"^(Inplace)?Add(Rms|Layer)Norm(?!\w*Grad)")),
    ("Norm", re.compile(r"^(Rms|Layer)Norm(?!\w*Grad)\w*$")),
    ("BatchMatMul", re.compile(r"^(Transpose)?BatchMatMul")),
    ("GroupedMatMul", re.compile(r"^GroupedMat[mM]ul(V\d+)?$")),
    ("MatMul", re.compile(r"^(Transpose|Quant)?Mat[mM]ul(V\d+|Common)?$|^Gemm$|^QuantBatchMat[mM]ul")),
    ("Gelu", re.compile(r"^(Fast)?Gelu(V\d+)?$")),
    ("SwiGlu", re.compile(r"^Swi[gG]lu$")),
    ("Softmax", re.compile(r"^Softmax(V\d+)?$")),
    ("Rope", re.compile(r"^(Interleave|Apply)?(Rotary|Rope)(?!\w*Grad)\w*$")),
    ("Quant", re.compile(r"^(AscendQuant|DynamicQuant)(V\d+)?$")),
    ("AllReduce", re.compile(r"all_?reduce", re.IGNORECASE)),
    ("Muls", re.compile(r"^Muls$|^Mul$")),
    ("Add", re.compile(r"^Add(V\d+)?$|^BiasAdd$")),
)
"""Operator types as the profiles name them, put into families; the first match counts."""

SPLIT_QKV = "split-qkv"
PASSED_OVER = frozenset({"Cast", "Identity", "ViewCopy", "Reshape", "AsStrided"})
"""Bookkeeping between two operators, which a fused operator has no need of."""


@dataclass(frozen=True, slots=True)
class Task:
    """What is looked at of one task."""

    type: str
    family: str
    seconds: float
    inputs: str | None
    outputs: str | None


@dataclass(frozen=True, slots=True)
class Pattern:
    """A sequence of families, the longest first in `PATTERNS`; `holds` is asked of the tasks that match."""

    name: str
    families: tuple[frozenset[str], ...]
    holds: Callable[[list[Task]], bool] = lambda tasks: True


def _one_input(tasks: list[Task]) -> bool:
    """Whether three products read the same tensor and the last two make outputs of one shape, as k and v do."""
    first = [shapes[0] if (shapes := _shapes(task.inputs)) else None for task in tasks]
    return (
        first[0] is not None
        and all(a == b for a, b in pairwise(first))
        and tasks[1].outputs is not None
        and tasks[1].outputs == tasks[2].outputs
    )


def _shapes(cell: str | None) -> list[str]:
    return cell.split(";") if cell else []


def _families(*names: str) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(name.split("|")) for name in names)


PATTERNS = (
    Pattern("norm-matmul-gelu", _families("Norm|AddNorm", "MatMul", "Gelu")),
    Pattern("norm-matmul-gelu", _families("Norm|AddNorm", "MatMul", "Add", "Gelu")),
    Pattern("softmax-batchmatmul", _families("Softmax", "BatchMatMul")),
    Pattern(SPLIT_QKV, _families("MatMul", "MatMul", "MatMul"), _one_input),
    Pattern("matmul-allreduce", _families("MatMul", "AllReduce")),
    Pattern("qk-norm-rope", _families("Norm", "Norm", "Rope")),
    Pattern("add-norm", _families("Add", "Norm")),
    Pattern("norm-quant", _families("Norm|AddNorm", "Quant")),
    Pattern("swiglu-quant", _families("GroupedMatMul", "SwiGlu", "Quant")),
    Pattern("muls-add", _families("Muls", "Add")),
)
_LONGEST = max(len(pattern.families) for pattern in PATTERNS)
_ENDING: dict[str, list[Pattern]] = {}
for _pattern in PATTERNS:
    for _family in _pattern.families[-1]:
        _ENDING.setdefault(_family, []).append(_pattern)


class FamilyNames:
    """Operator types to families; each type is looked up once."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def of(self, type_: str) -> str:
        """The family, or the type itself if it has none."""
        if (family := self._known.get(type_)) is None:
            family = next((name for name, pattern in FAMILIES if pattern.search(type_)), type_)
            if len(self._known) < 10_000:
                self._known[type_] = family
        return family


class NeighbourCount:
    """Watches one device's tasks pass and counts the patterns among neighbours."""

    def __init__(self) -> None:
        self._last: deque[Task] = deque(maxlen=_LONGEST)
        self._found: dict[str, tuple[int, float, tuple[str, ...]]] = {}

    def add(self, task: Task) -> None:
        """The next task in order of start."""
        if task.type in PASSED_OVER:
            return
        self._last.append(task)
        for pattern in _ENDING.get(task.family, ()):
            tail = list(self._last)[-len(pattern.families) :]
            if (
                len(tail) == len(pattern.families)
                and all(t.family in wanted for t, wanted in zip(tail, pattern.families, strict=True))
                and pattern.holds(tail)
            ):
                self._count(pattern.name, tail)
                if pattern.name == SPLIT_QKV:
                    self._last.clear()  # four products of one input are one finding, not two

    def _count(self, name: str, tail: list[Task]) -> None:
        count, seconds, example = self._found.get(name, (0, 0.0, tuple(task.type for task in tail)))
        self._found[name] = (count + 1, seconds + sum(task.seconds for task in tail), example)

    def result(self) -> tuple[Neighbours, ...]:
        """The patterns found, the most time first."""
        found = [Neighbours(name, *figures) for name, figures in self._found.items()]
        return tuple(sorted(found, key=lambda n: -n.seconds))
