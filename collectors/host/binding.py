"""What vllm-ascend says in its log of the CPUs, memory and interrupts it bound for each NPU."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

MAX_NOTES = 20

_MODE = re.compile(r"\[cpu_bind_mode\] mode=(\w{1,40}) rank=(\d{1,6}) visible_npus=\[([\d, ]*)\]")
_PLAN = re.compile(
    r"\bNPU(\d{1,6}): main=\[([\d, ]*)\]\s+acl=\[([\d, \[\]]*?)\]\s+release=\[([\d, \[\]]*)\]\s*$"
)
_PLAN_950 = re.compile(r"\bAscend 950 NPU(\d{1,6}): worker=\[([\d, ]*)\]")
_MEMORY = re.compile(r"\[migrate\] NPU:(\d{1,6}) -> NUMA \[(\d{1,6})\]")
_INTERRUPTS = re.compile(r"\bNPU(\d{1,6})\(PCI ([0-9a-fA-F:.]{7,20})\): (.*IRQ_ID=.*)")
_INTERRUPT = re.compile(r"(\w{1,60}) IRQ_ID=(\d{1,9}) -> CPU(\d{1,6})")
_HEADING = "CPU allocation plan"
_OURS = re.compile(r"cpu_binding\.py:\d+|\[cpu_bind|\[migrate\]|\[irq\]")


@dataclass(frozen=True, slots=True)
class NpuBinding:
    """What was bound for one NPU, as the engine numbers it; empty or None is what the log does not say.

    `main`, `acl` and `release` are the CPUs of the worker and of its two driver threads; on Ascend 950 all are
    `main`. `interrupts` are the handler's number and CPU by its name.
    """

    npu: int
    mode: str | None = None
    rank: int | None = None
    main: frozenset[int] = frozenset()
    acl: frozenset[int] = frozenset()
    release: frozenset[int] = frozenset()
    memory_node: int | None = None
    bus_id: str | None = None
    interrupts: Mapping[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CpuBinding:
    """All NPUs of a log, by number; `notes` are lines about binding that are of no known form."""

    npus: Mapping[int, NpuBinding]
    notes: tuple[str, ...] = ()


def parse_binding(lines: Iterable[str]) -> CpuBinding:
    """Find the lines among the engine's others, whatever stands before them; a later line of an NPU counts.

    Source of the lines: vllm_ascend/cpu_binding.py, versions 0.18 to 0.21 and later.
    """
    found: dict[int, NpuBinding] = {}
    notes: list[str] = []
    strange = 0
    for line in lines:
        if not _take(line, found) and _OURS.search(line) and _HEADING not in line:
            strange += 1
            if len(notes) < MAX_NOTES:
                notes.append(line.strip()[:200])
    if strange > len(notes):
        notes.append(f"and {strange - len(notes)} more lines about binding")
    return CpuBinding(dict(sorted(found.items())), tuple(notes))


def _take(line: str, found: dict[int, NpuBinding]) -> bool:
    def of(npu: str) -> NpuBinding:
        return found.get(int(npu), NpuBinding(int(npu)))

    if match := _MODE.search(line):
        visible = [int(number) for number in re.findall(r"\d{1,6}", match[3])]
        rank = int(match[2])
        if rank >= len(visible):
            return False
        npu = visible[rank]
        found[npu] = replace(of(str(npu)), mode=match[1], rank=rank)
    elif match := _PLAN.search(line):
        main, acl, release = (_cpus(match[part]) for part in (2, 3, 4))
        found[int(match[1])] = replace(of(match[1]), main=main, acl=acl, release=release)
    elif match := _PLAN_950.search(line):
        found[int(match[1])] = replace(of(match[1]), main=_cpus(match[2]))
    elif match := _MEMORY.search(line):
        found[int(match[1])] = replace(of(match[1]), memory_node=int(match[2]))
    elif match := _INTERRUPTS.search(line):
        bound = {name: (int(irq), int(cpu)) for name, irq, cpu in _INTERRUPT.findall(match[3])}
        found[int(match[1])] = replace(of(match[1]), bus_id=match[2].lower(), interrupts=bound)
    else:
        return False
    return True


def _cpus(text: str) -> frozenset[int]:
    return frozenset(int(number) for number in re.findall(r"\d{1,6}", text))
