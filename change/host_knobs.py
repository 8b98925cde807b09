"""The knobs of the host lane as data, and what is only told in words because it needs a restart or a firmware menu."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from change.host import HostChange, Scope

AS_FOUND = "as_found"
"""What the engine, its launcher or the operator left, where that has no other name."""


@dataclass(frozen=True, slots=True)
class HostKnob:
    """One knob of the host lane.

    `values` are the forms a value may have, with `<n>` for a node or a count; `read_back` and `undo` say how its
    value in force is read and what the way back puts where.
    """

    name: str
    scope: Scope
    values: tuple[str, ...]
    why: str
    read_back: str
    undo: str

    def problem(self, value: str) -> str | None:
        """Say in words why `value` is none of this knob's, None if it is one."""
        if any(re.fullmatch(re.escape(form).replace("<n>", r"\d{1,9}"), value) for form in self.values):
            return None
        return f"{self.name}={value}: expected {' or '.join(self.values)}"


@dataclass(frozen=True, slots=True)
class HostHint:
    """What Trimtab says and does not do; `where` it is changed."""

    name: str
    where: Literal["engine start", "host start", "firmware"]
    text: str


_PAGES_UNDO = "each page that is still there, to the node it was on"

_ALL = (
    HostKnob(
        "placement",
        "engine",
        (AS_FOUND, "split:<n>", "whole:<n>"),
        "Threads that prepare work (API, tokenizer, scheduler) and threads that feed the NPU take each other's cores "
        "away. `split` puts them on separate cores of one node, control threads on the first half of it and compute "
        "threads on the second; `whole` binds whole processes to the node, which seldom gains anything.",
        "sched_getaffinity of every thread",
        "each thread's own CPUs, by thread and start time; threads born since get those of their process",
    ),
    HostKnob(
        "memory",
        "engine",
        (AS_FOUND, "node:<n>"),
        "A core that reads memory of another node waits for the link between them. Private pages are moved to the node "
        "where the cores are and where there is room.",
        "numa_maps: 95% of the private pages on one node",
        _PAGES_UNDO,
    ),
    HostKnob(
        "shared_memory",
        "engine",
        (AS_FOUND, "node:<n>"),
        "Shared memory between the engine's processes lies where it was first written; on a full node it makes the "
        "kernel reclaim in the middle of a request.",
        "numa_maps: 95% of the pages of /dev/shm, System V and memfd on one node",
        _PAGES_UNDO,
    ),
    HostKnob(
        "transparent_hugepages",
        "node",
        ("always", "madvise", "never"),
        "`always` makes page faults long at times: jitter in the time to the first token.",
        "/sys/kernel/mm/transparent_hugepage/enabled",
        "the word that was chosen",
    ),
    HostKnob(
        "khugepaged_defrag",
        "node",
        ("0", "1"),
        "The kernel's collector of huge pages moves memory in the background and stalls whoever touches it.",
        "/sys/kernel/mm/transparent_hugepage/khugepaged/defrag",
        "the number that was there",
    ),
    HostKnob(
        "cpu_governor",
        "node",
        ("performance", "schedutil", "ondemand", "powersave", "conservative", "userspace"),
        "A core that has to clock up first answers late. `performance` costs power.",
        "scaling_governor of every cpufreq policy",
        "each policy's own governor",
    ),
    HostKnob(
        "irq_placement",
        "node",
        (AS_FOUND, "off_compute"),
        "An interrupt on a core that feeds the NPU delays the next operator.",
        "smp_affinity_list of every interrupt against the compute threads' cores",
        "each interrupt's own list; those the kernel manages itself are never moved",
    ),
    HostKnob(
        "numa_balancing",
        "node",
        ("0", "1", "2", "3"),
        "While it is on, the kernel moves pages by itself, also back to where they were taken from.",
        "/proc/sys/kernel/numa_balancing",
        "the number that was there",
    ),
    HostKnob(
        "swappiness",
        "node",
        ("<n>",),
        "An engine whose pages are swapped out stands still; 0 to 10 keeps them.",
        "/proc/sys/vm/swappiness",
        "the number that was there",
    ),
    HostKnob(
        "sched_migration_cost_ns",
        "node",
        ("<n>",),
        "How long a thread counts as warm on its core: more keeps it there, less spreads load faster.",
        "/proc/sys/kernel/sched_migration_cost_ns, or debugfs since Linux 5.13",
        "the number that was there",
    ),
    HostKnob(
        "hugepages",
        "node",
        ("<n>",),
        "Huge pages set aside for buffers that ask for them; memory given to them is lost to everything else.",
        "/proc/sys/vm/nr_hugepages: the kernel may find fewer than asked for",
        "the number that was there",
    ),
)
HOST_KNOBS: Mapping[str, HostKnob] = MappingProxyType({knob.name: knob for knob in _ALL})
"""The knobs of the host lane, by name."""

ENGINE_KNOBS = tuple(knob.name for knob in _ALL if knob.scope == "engine")
"""Those that touch nothing but the engine's own threads and pages: the ones allowed unless others are named."""

HOST_HINTS = (
    HostHint(
        "tcmalloc",
        "engine start",
        "LD_PRELOAD of libtcmalloc keeps the engine's threads from waiting for each other's malloc; a preload is read "
        "at the start of a process only, so it goes with a restart.",
    ),
    HostHint(
        "memory policy",
        "engine start",
        "Only a thread itself can set where its next pages go (set_mempolicy): start the engine under `numactl "
        "--membind` or give its control group cpuset.mems. Pages that are there already are moved without it.",
    ),
    HostHint(
        "npu.conf",
        "host start",
        "/etc/npu.conf is named in field guides; no release known to us ships it. Where it exists its huge page and "
        "DMA buffer keys are read and held against what the kernel really has; it is never written.",
    ),
    HostHint(
        "irqbalance",
        "host start",
        "A running irqbalance moves interrupts back within seconds: ban the compute cores there "
        "(IRQBALANCE_BANNED_CPULIST) or stop it before irq_placement is worth anything.",
    ),
    HostHint(
        "power profile",
        "firmware",
        "The firmware's power profile `performance` keeps cores and memory at their nominal clock where the governor "
        "cannot reach; worth a look when cpu_governor changes nothing. It needs a restart of the host.",
    ),
    HostHint(
        "NUMA in the firmware",
        "firmware",
        "Node interleaving must be off: with it the host shows one node and nothing of placement can be seen or set.",
    ),
    HostHint(
        "clock",
        "host start",
        "The clock source tsc (x86) or arch_sys_counter (ARM) is read without leaving the process; with hpet or "
        "acpi_pm each time stamp of the engine is a slow read of a device. See /sys/devices/system/clocksource.",
    ),
    HostHint(
        "hyper-threading",
        "firmware",
        "Kunpeng 920 has one thread a core: there is nothing to switch off. On x86 `split` keeps siblings together.",
    ),
    HostHint(
        "PCIe ASPM",
        "firmware",
        "L1 puts the link to the NPU to sleep and adds its wake-up to every transfer: leave it off, whatever a guide "
        "says of saving power. The boot parameter pcie_aspm=off, or the policy `performance`, shows it.",
    ),
)


def parse_change(text: str) -> HostChange:
    """Read `KNOB=VALUE`; raises ValueError that names the nearest known knob or the values there are."""
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not value:
        raise ValueError(f"{text!r}: expected KNOB=VALUE, as in placement=split:6")
    knob = HOST_KNOBS.get(name)
    if knob is None:
        near = difflib.get_close_matches(name, HOST_KNOBS, 1)
        hint = f"did you mean {near[0]}?" if near else f"expected one of {', '.join(HOST_KNOBS)}"
        raise ValueError(f"{name!r} is no knob of the host lane: {hint}")
    if problem := knob.problem(value):
        raise ValueError(problem)
    return HostChange(name, value)
