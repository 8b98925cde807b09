"""Where the time of each rank went: memory bound, compute bound, communication, idle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from collectors.profile.findings.finding import Figure, Finding
from collectors.profile.model import RankProfile

COMMUNICATION_SHARE = 0.30
IDLE_SHARE = 0.15


@dataclass(frozen=True, slots=True)
class TimeShares:
    """Parts of the profiled time, which add up to 1; `unmeasured` is computing whose pipes were not measured.

    `total_seconds` is the time of all steps, or from the first task to the last one where steps are not known.
    """

    total_seconds: float
    computing: float
    memory_bound: float
    compute_bound: float
    unmeasured: float
    communication: float
    idle: float


def time_shares(profile: RankProfile) -> TimeShares | None:
    """The parts of one rank's time; None if the profile does not tell."""
    parts = _parts(profile)
    if parts is None:
        return None
    computing, communication, idle = parts
    total = computing + communication + idle
    if total <= 0:
        return None
    tasks = profile.computing_seconds
    memory = sum(o.memory_bound_seconds for o in profile.operators) / tasks if tasks else 0.0
    compute = sum(o.compute_bound_seconds for o in profile.operators) / tasks if tasks else 0.0
    share = computing / total
    return TimeShares(
        total,
        share,
        share * memory,
        share * compute,
        share * max(1 - memory - compute, 0.0),
        communication / total,
        idle / total,
    )


def _parts(profile: RankProfile) -> tuple[float, float, float] | None:
    """Computing, exposed communication and free time: the profiler's own if it has them, else from the tasks."""
    known = [
        (computing, exposed, free)
        for step in profile.steps
        if (computing := step.computing_seconds) is not None
        and (exposed := step.exposed_communication_seconds) is not None
        and (free := step.free_seconds) is not None
    ]
    if known:
        computing, exposed, free = (sum(column) for column in zip(*known, strict=True))
        return computing, exposed, free
    if (line := profile.timeline) is not None:
        return line.computing_seconds, line.exposed_communication_seconds, line.free_seconds
    return None


def examine(profiles: Sequence[RankProfile]) -> list[Finding]:
    """The shares, and whether communication or idle time takes too much."""
    known = [(profile.label, shares) for profile in profiles if (shares := time_shares(profile)) is not None]
    if not known:
        return []
    figures = tuple(
        Figure(name, value, "share", label)
        for label, shares in known
        for name, value in (
            ("memory bound", shares.memory_bound),
            ("compute bound", shares.compute_bound),
            ("computing, not measured", shares.unmeasured),
            ("communication", shares.communication),
            ("idle", shares.idle),
        )
    )
    findings = [
        Finding(
            "time_shares",
            "info",
            "Where the time went",
            "Parts of each rank's profiled time. Communication is what no computing covered; idle is when the "
            "device ran nothing. Computing is memory bound while the pipe that loads from memory (mte2) is busier "
            "than the cube and vector pipes, else compute bound.",
            figures,
            None,
        )
    ]
    return findings + _communication(known) + _idle(known)


def _communication(known: list[tuple[str, TimeShares]]) -> list[Finding]:
    over = [(label, s.communication) for label, s in known if s.communication >= COMMUNICATION_SHARE]
    if not over:
        return []
    return [
        Finding(
            "communication_share",
            "high" if max(share for _, share in over) >= 2 * COMMUNICATION_SHARE else "medium",
            "Communication that nothing covers takes much of the time",
            "The device waits for transfers or for other ranks. Which of the two: see the wait shares and links.",
            tuple(Figure("communication not overlapped", share, "share", label) for label, share in over),
            f"{COMMUNICATION_SHARE:.0%} of the time; a rule of thumb",
            (
                "fewer ranks that must agree at each layer (a smaller tensor parallel size) if the model fits",
                "HCCL_OP_EXPANSION_MODE=AIV for short messages within one node (decode)",
                "overlap: the engine's sequence parallel or fused matmul and communication switches, where it has them",
            ),
        )
    ]


def _idle(known: list[tuple[str, TimeShares]]) -> list[Finding]:
    over = [(label, s.idle) for label, s in known if s.idle >= IDLE_SHARE]
    if not over:
        return []
    return [
        Finding(
            "idle_share",
            "high" if max(share for _, share in over) >= 2 * IDLE_SHARE else "medium",
            "The device is idle for much of the time",
            "Neither computing nor communication ran. Mostly the host was late: see the gaps before kernels.",
            tuple(Figure("idle", share, "share", label) for label, share in over),
            f"{IDLE_SHARE:.0%} of the time; a rule of thumb",
            (
                "graph mode for decode (cudagraph_mode FULL_DECODE_ONLY or PIECEWISE, no --enforce-eager)",
                "--async-scheduling, so that the next step is prepared while this one runs",
                "the engine's threads on the NPU's own NUMA node, governor performance",
            ),
        )
    ]
