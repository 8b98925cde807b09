"""Interrupts: the lines of `/proc/interrupts`, and the CPUs that may take them (`/proc/irq/N`)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from collectors.host.files import SystemFiles
from collectors.host.nodes import read_cpulist

LONGEST_LINE = 1024 * 1024
LONGEST_DESCRIPTION = 400
OF_NPU = re.compile(
    r"sq_send_trigger_irq|cq_update_irq|trs[-_]mbox|devdrv|davinci|ascend|drvhdc", re.IGNORECASE
)
"""Handlers of the Ascend driver. `sq_send_trigger_irq` tells that work was sent, `cq_update_irq` that it is done."""

_CPU = re.compile(r"CPU(\d{1,6})")


@dataclass(frozen=True, slots=True)
class Interrupt:
    """One line: the number (or a word, as `NMI`), its handler, and how often each CPU took it, zeros left out."""

    irq: str
    handler: str
    counts: Mapping[int, int]


class InterruptsError(ValueError):
    """The text has no header of CPUs, so that no count can be told."""


def parse_interrupts(
    lines: Iterable[str], irqs: Collection[str] = (), pattern: re.Pattern[str] | None = OF_NPU
) -> Iterator[Interrupt | str]:
    """The interrupts whose handler fits `pattern` (None: all) or whose number is one of `irqs`.

    A wanted line that is cut or damaged is given as a text that says so. Raises InterruptsError without a header.
    """
    source = iter(lines)
    cpus: list[int] = []
    for line in source:
        if line.strip():
            names = [_CPU.fullmatch(word) for word in line.split()]
            cpus = [int(name[1]) for name in names if name is not None]
            if not cpus or len(cpus) != len(names):
                raise InterruptsError(f"no header of CPUs: {line.strip()[:80]!r}")
            break
    else:
        raise InterruptsError("the text is empty")
    for line in source:
        irq, colon, rest = line.partition(":")
        irq = irq.strip()
        # A line is long where there are hundreds of CPUs, and what tells whose it is stands at its end.
        if (
            pattern is not None
            and irq not in irqs
            and not pattern.search(rest[-LONGEST_DESCRIPTION:].lstrip("0123456789 "))
        ):
            continue
        if not colon:
            if line.strip():
                yield f"no interrupt: {line.strip()[:80]!r}"
            continue
        cells = rest.split(maxsplit=len(cpus))
        # Nearly all counts are 0, and the others alone are worth a number.
        taken = [(cpu, cell) for cpu, cell in zip(cpus, cells, strict=False) if cell != "0"]
        sound = (
            sum(cell.isascii() and cell.isdigit() for _, cell in taken)
            + min(len(cpus), len(cells))
            - len(taken)
        )
        if sound < len(cpus):
            if irq not in ("ERR", "MIS"):  # one count for the whole machine
                yield f"interrupt {irq[:20]}: {sound} counts for {len(cpus)} CPUs"
            continue
        description = cells[len(cpus)] if len(cells) > len(cpus) else ""
        counts = {cpu: count for cpu, cell in taken if (count := int(cell))}
        yield Interrupt(irq, _handler(description), counts)


def _handler(description: str) -> str:
    """The last word; shared interrupts name several handlers with commas between."""
    words = description.split()
    first = len(words) - 1
    while first > 0 and words[first - 1].endswith(","):
        first -= 1
    return " ".join(words[max(first, 0) :])


@dataclass(frozen=True, slots=True)
class IrqAffinity:
    """The CPUs that may take an interrupt, and those it is really sent to; None is unknown."""

    allowed: frozenset[int] | None
    effective: frozenset[int] | None


def read_irq_affinity(files: SystemFiles, irq: str) -> IrqAffinity:
    """From /proc/irq; both are unknown in a container that does not see it."""
    folder = f"/proc/irq/{irq}"
    return IrqAffinity(
        read_cpulist(files, f"{folder}/smp_affinity_list"),
        read_cpulist(files, f"{folder}/effective_affinity_list"),
    )
