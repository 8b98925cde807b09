"""Pasted texts about a host as plain values: base units, null for unknown, notes for what could not be read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from collectors.host.binding import parse_binding
from collectors.host.cpulist import format_cpulist
from collectors.host.irq import InterruptsError, parse_interrupts
from collectors.host.lscpu import parse_lscpu
from collectors.host.nodes import Nodes
from collectors.host.numa_maps import PagesByNode, parse_numa_maps
from collectors.host.numactl import parse_numactl

Plain: TypeAlias = "bool | int | float | str | list[Plain] | dict[str, Plain] | None"
"""What JSON can say."""

MAX_NOTES = 20


def lscpu_values(text: str) -> dict[str, Plain]:
    """`lscpu`: the processor and its nodes."""
    found = parse_lscpu(text)
    known = found.cpus is not None or found.nodes.by_number
    return {
        "architecture": found.architecture,
        "vendor": found.vendor,
        "model": found.model,
        "board_model": found.board_model,
        "cpus": found.cpus,
        "online": _cpus(found.online),
        "threads_per_core": found.threads_per_core,
        "cores_per_socket": found.cores_per_socket,
        "cores_per_cluster": found.cores_per_cluster,
        "sockets": found.sockets,
        "clusters": found.clusters,
        "max_hertz": found.max_hertz,
        "nodes": _nodes(found.nodes),
        "others": dict(found.others),
        "notes": _notes(found.notes),
        "error": None if known else "no line of lscpu in it",
    }


def numactl_values(text: str) -> dict[str, Plain]:
    """`numactl -H`: nodes with memory, and distances."""
    found = parse_numactl(text)
    distances: list[Plain] = [
        {"node": node, "to": to, "distance": distance} for (node, to), distance in found.distances.items()
    ]
    return {
        "nodes": _nodes(found.nodes),
        "distances": distances,
        "notes": _notes(found.notes),
        "error": None if found.nodes.by_number else "no node of numactl -H in it",
    }


def numa_maps_values(text: str) -> dict[str, Plain]:
    """`/proc/PID/numa_maps`: bytes by kind and node."""
    found = parse_numa_maps(text.splitlines())
    placed: list[Plain] = [
        {"kind": kind, "node": node, "bytes": size} for (kind, node), size in sorted(found.bytes.items())
    ]
    return {
        "memory": placed,
        "notes": _unread(found),
        "error": None if found.bytes else "no mapping with pages in it",
    }


def interrupts_values(text: str) -> dict[str, Plain]:
    """`/proc/interrupts`: the lines of the NPUs' driver, with the CPUs that took them."""
    interrupts: list[Plain] = []
    notes: list[str] = []
    error: str | None = None
    try:
        for one in parse_interrupts(text.splitlines()):
            if isinstance(one, str):
                notes.append(one)
                continue
            counts: dict[str, Plain] = {str(cpu): count for cpu, count in one.counts.items()}
            interrupts.append({"irq": one.irq, "handler": one.handler, "counts": counts})
    except InterruptsError as failure:
        error = str(failure)
    return {"interrupts": interrupts, "notes": _notes(notes), "error": error}


def binding_values(text: str) -> dict[str, Plain]:
    """vllm-ascend's lines about CPU binding."""
    found = parse_binding(text.splitlines())
    npus: list[Plain] = [
        {
            "npu": one.npu,
            "mode": one.mode,
            "rank": one.rank,
            "main": _cpus(one.main or None),
            "acl": _cpus(one.acl or None),
            "release": _cpus(one.release or None),
            "memory_node": one.memory_node,
            "bus_id": one.bus_id,
            "interrupts": [
                {"handler": handler, "irq": irq, "cpu": cpu} for handler, (irq, cpu) in one.interrupts.items()
            ],
        }
        for one in found.npus.values()
    ]
    return {
        "npus": npus,
        "notes": _notes(found.notes),
        "error": None if npus else "no line about CPU binding in it",
    }


PASTES: Mapping[str, Callable[[str], dict[str, Plain]]] = {
    "lscpu": lscpu_values,
    "numactl": numactl_values,
    "numa-maps": numa_maps_values,
    "interrupts": interrupts_values,
    "cpu-binding": binding_values,
}
"""Each kind of text with what reads it."""


def _cpus(cpus: frozenset[int] | None) -> str | None:
    return None if cpus is None else format_cpulist(cpus)


def _nodes(nodes: Nodes) -> list[Plain]:
    return [
        {
            "node": node.number,
            "cpus": _cpus(node.cpus),
            "memory_total_bytes": node.total_bytes,
            "memory_free_bytes": node.free_bytes,
        }
        for node in nodes.by_number.values()
    ]


def _unread(found: PagesByNode) -> list[Plain]:
    shown: list[Plain] = [f"cannot be read: {line!r}" for line in found.examples]
    if found.unread > len(found.examples):
        shown.append(f"and {found.unread - len(found.examples)} more")
    return shown


def _notes(notes: tuple[str, ...] | list[str]) -> list[Plain]:
    shown: list[Plain] = list(notes[:MAX_NOTES])
    if len(notes) > MAX_NOTES:
        shown.append(f"and {len(notes) - MAX_NOTES} more")
    return shown
