"""Keeps interrupts off the cores of the compute threads: `/proc/irq/N/smp_affinity_list`."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from typing import Any

from change.host import HostError, HostReading
from change.host_knobs import AS_FOUND
from collectors.host.cpulist import format_cpulist
from collectors.host.irq import read_irq_affinity
from daemon.host.files import FileRefused, HostFiles

OFF_COMPUTE = "off_compute"
_MANAGED = (errno.EIO, errno.EPERM)
"""What the kernel answers for an interrupt that it or the driver spreads itself. As root EPERM can only be that."""


class Interrupts:
    """The knob `irq_placement`.

    `compute_cpus` gives the compute threads' cores, None where threads are not apart; `bound` are interrupts that the
    engine put where it wants them, which stay there.
    """

    knob = "irq_placement"

    def __init__(
        self,
        files: HostFiles,
        compute_cpus: Callable[[], frozenset[int] | None],
        bound: Callable[[], frozenset[int]] = frozenset,
    ) -> None:
        self._files = files
        self._compute = compute_cpus
        self._bound = bound
        self._managed: set[str] = set()

    def values(self) -> tuple[str, ...]:
        """`off_compute`, once there are compute cores to keep free."""
        return (OFF_COMPUTE,) if self._compute() and self._lists() else ()

    def read(self, *, undo: bool = True) -> HostReading:
        """Say whether the compute cores are free of interrupts; the undo is every interrupt's own list."""
        lists = self._lists()
        if not lists:
            return HostReading(self.knob, "node", None, "no interrupt shows its CPUs under /proc/irq here")
        compute = self._compute()
        kept = {"irqs": {irq: format_cpulist(cpus) for irq, cpus in lists.items()}} if undo else None
        if not compute:
            why = "the compute threads have no cores of their own: set placement=split:<node> first"
            return HostReading(self.knob, "node", AS_FOUND, why, kept)
        on_compute = [irq for irq, cpus in lists.items() if cpus & compute and irq not in self._managed]
        reason = f"{len(on_compute)} of {len(lists)} interrupts may come to CPUs {format_cpulist(compute)}"
        if self._managed:
            reason += f"; {len(self._managed)} more are the kernel's own and cannot be moved"
        return HostReading(self.knob, "node", AS_FOUND if on_compute else OFF_COMPUTE, reason, kept)

    def write(self, value: str) -> None:
        """Take the compute cores out of every interrupt's list."""
        compute = self._compute()
        if value != OFF_COMPUTE or not compute:
            raise HostError(
                "the compute threads have no cores of their own: set placement=split:<node> first"
            )
        moved = 0
        for irq, target in self._targets(compute).items():
            moved += self._put(irq, target)
        if self._managed and not moved and self._targets(compute):
            raise HostError(
                f"none of {len(self._managed)} interrupts can be moved: the kernel spreads them itself"
            )

    def restore(self, undo: Mapping[str, Any]) -> None:
        """Put each interrupt's own list back; one whose device is gone is passed over."""
        now = {irq: format_cpulist(cpus) for irq, cpus in self._lists().items()}
        for irq, text in undo["irqs"].items():
            if irq in now and now[irq] != text:
                self._put(irq, text)

    def preview(self, value: str) -> list[str]:
        """What `write` would do, in words."""
        compute = self._compute()
        if value != OFF_COMPUTE or not compute:
            return ["nothing: the compute threads have no cores of their own yet (placement=split:<node>)"]
        targets = self._targets(compute)
        irqs = ", ".join(list(targets)[:12]) + (f" and {len(targets) - 12} more" if len(targets) > 12 else "")
        lines = [f"{len(targets)} interrupts off CPUs {format_cpulist(compute)}: {irqs or 'none'}"]
        if self._balanced():
            lines.append("irqbalance runs and will move them back: ban these CPUs there, or stop it")
        return lines

    def _balanced(self) -> bool:
        """Whether irqbalance runs; asked for a plan only, since it reads a file of every process."""
        numbers = [name for name in self._files.names("/proc") if name.isdecimal()]
        return any("(irqbalance)" in (self._files.record(f"/proc/{name}/stat") or "") for name in numbers)

    def _targets(self, compute: frozenset[int]) -> dict[str, str]:
        lists = self._lists()
        everywhere = frozenset().union(*lists.values()) - compute
        found = {}
        for irq, cpus in lists.items():
            if cpus & compute:
                # What is left of its own list keeps it near its device; else any other core takes it.
                rest = cpus - compute or everywhere
                if rest:
                    found[irq] = format_cpulist(rest)
        return found

    def _put(self, irq: str, text: str) -> bool:
        try:
            self._files.write(f"/proc/irq/{irq}/smp_affinity_list", text)
        except FileRefused as refusal:
            if refusal.errno not in _MANAGED:
                raise
            self._managed.add(irq)
            return False
        self._managed.discard(irq)
        return True

    def _lists(self) -> dict[str, frozenset[int]]:
        found = {}
        bound = {str(irq) for irq in self._bound()}
        numbers = (name for name in self._files.names("/proc/irq") if name.isdecimal() and name not in bound)
        for irq in sorted(numbers, key=int):
            allowed = read_irq_affinity(self._files, irq).allowed
            if allowed:
                found[irq] = allowed
        return found
