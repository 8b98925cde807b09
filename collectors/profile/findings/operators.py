"""Which operators take the time, and whether memory or computing bounds them."""

from __future__ import annotations

from collections.abc import Sequence

from collectors.profile.findings.finding import Figure, Finding
from collectors.profile.model import RankProfile

TOP = 5


def examine(profiles: Sequence[RankProfile]) -> list[Finding]:
    """The operators that take most, and the memory bound figure that guides call MEM_STALL."""
    computing = [profile for profile in profiles if profile.operators]
    findings = []
    if computing:
        findings.append(_top(computing))
    if measured := [p for p in computing if any(o.measured_seconds for o in p.operators)]:
        findings.append(_memory_bound(measured))
    return findings


def _top(profiles: Sequence[RankProfile]) -> Finding:
    figures = []
    for profile in profiles:
        for operator in profile.operators[:TOP]:
            share = operator.seconds / profile.computing_seconds if profile.computing_seconds else 0.0
            figures += [
                Figure(f"{operator.type} ({operator.core})", operator.seconds, "seconds", profile.label),
                Figure(f"{operator.type} of computing", share, "share", profile.label),
            ]
    return Finding(
        "top_operators",
        "info",
        "The operators that take most of the computing time",
        "All runs of an operator type on one kind of core added up.",
        tuple(figures),
        None,
    )


def _memory_bound(profiles: Sequence[RankProfile]) -> Finding:
    figures = []
    for profile in profiles:
        measured = sum(o.measured_seconds for o in profile.operators)
        for name, part in (
            ("time in memory-bound operators", sum(o.memory_bound_seconds for o in profile.operators)),
            ("mte2 busy, weighted by duration", sum(o.mte2_seconds for o in profile.operators)),
        ):
            figures.append(Figure(name, part / measured, "share", profile.label))
        computed = sum(o.pipe_seconds for o in profile.operators)
        if computed > 0:
            ratio = sum(o.mte2_seconds for o in profile.operators) / computed
            figures.append(Figure("memory_bound, weighted by duration", ratio, "times", profile.label))
    return Finding(
        "memory_bound",
        "info",
        "Memory bound (some guides call it MEM_STALL)",
        "For each operator memory_bound = mte2 / max(mac, vec), the busy ratios of the pipe that loads from memory "
        "and of the pipes that compute; over 1 it is memory bound. No counter named MEM_STALL exists: mte2 is the "
        "share of time in which the pipe works, and not one in which anything stalls. 0.6 is common for healthy "
        "models, so the often quoted 30% always fires.",
        tuple(figures),
        "none: compare with a profile of the same model and load from a day when it was well",
        (
            "decode is memory bound by nature: larger batches read the weights for more tokens at once",
            "quantised weights (W8A8, W4A8) and a quantised KV cache, which move fewer bytes",
        ),
    )
