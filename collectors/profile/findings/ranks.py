"""What only shows beside other ranks: a slow card, a card that waits; and bubbles."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from collectors.profile.findings.finding import Figure, Finding
from collectors.profile.findings.shares import time_shares
from collectors.profile.model import Operator, RankProfile

SLOWER = 0.15
OF_COMPUTING = 0.05
SAME_COUNT = 0.20
WAIT_SHARE = 0.20
WAIT_APART = 0.10
BUBBLE_SHARE = 0.30


def examine(profiles: Sequence[RankProfile]) -> list[Finding]:
    """Bubbles of each profile, and with two cards or more the slow one and the one that waits."""
    findings = _bubbles(profiles)
    cards = _different_cards(profiles)
    if len(cards) > 1:
        findings += _slow(cards) + _waiting(cards)
    return findings


def _different_cards(profiles: Sequence[RankProfile]) -> list[RankProfile]:
    """The first profile of each known rank, or else of each known device: two of one card are two runs."""
    by_rank: dict[int, RankProfile] = {}
    by_device: dict[str, RankProfile] = {}
    for profile in profiles:
        if profile.rank is not None:
            by_rank.setdefault(profile.rank, profile)
        elif profile.device is not None:
            by_device.setdefault(profile.device, profile)
    # What rank a device has is not known, so the two are not compared with each other.
    return list(by_rank.values()) or list(by_device.values())


def _slow(profiles: Sequence[RankProfile]) -> list[Finding]:
    """Operators that take longer on one rank than on the middle one of the others, for as many runs."""
    tables = {p.label: {(o.type, o.core): o for o in p.operators} for p in profiles}
    findings = []
    for profile in profiles:
        slow: list[tuple[Operator, float]] = []
        for operator in profile.operators:
            if operator.seconds < OF_COMPUTING * profile.computing_seconds:
                continue
            others = [
                table[operator.type, operator.core]
                for label, table in tables.items()
                if label != profile.label and (operator.type, operator.core) in table
            ]
            alike = [o for o in others if abs(o.count - operator.count) <= SAME_COUNT * operator.count]
            if not alike:
                continue
            middle = median(o.mean_seconds for o in alike)
            longer = operator.mean_seconds / middle - 1 if middle > 0 else 0.0
            if longer >= SLOWER:
                slow.append((operator, longer))
        if slow:
            findings.append(_slow_card(profile, slow))
    return findings


def _slow_card(profile: RankProfile, slow: list[tuple[Operator, float]]) -> Finding:
    figures = []
    for operator, longer in slow:
        figures += [
            Figure(f"{operator.type}: longer than on the others", longer, "share", profile.label),
            Figure(f"{operator.type}: mean", operator.mean_seconds, "seconds", profile.label),
            Figure(
                f"{operator.type}: of computing",
                operator.seconds / profile.computing_seconds,
                "share",
                profile.label,
            ),
        ]
    names = ", ".join(operator.type for operator, _ in slow)
    return Finding(
        "slow_card",
        "high",
        f"{profile.label} is slow: {names} takes {max(longer for _, longer in slow):.0%} longer than elsewhere",
        "The same operator, as often, takes longer here than on the middle one of the other ranks. All others wait "
        "for this card at each collective.",
        tuple(figures),
        f"{SLOWER:.0%} longer, in operators of at least {OF_COMPUTING:.0%} of the rank's computing",
        (
            "is its clock lowered: npu-smi info -t common, temperature, power, throttling",
            "has it a heavier part: another expert, a longer pipeline stage, more tokens (data parallel)",
            "does another process use the card",
        ),
    )


def _waiting(profiles: Sequence[RankProfile]) -> list[Finding]:
    shares: dict[str, float] = {}
    for profile in profiles:
        total = time_shares(profile)
        if profile.collectives and total is not None:
            shares[profile.label] = sum(c.wait_seconds for c in profile.collectives) / total.total_seconds
    if len(shares) < 2:
        return []
    least = min(shares, key=lambda label: shares[label])
    findings = [
        Finding(
            "waits",
            "info",
            "Waiting within collectives",
            "The part of each rank's time that it waits in collectives for others to come or to send.",
            tuple(Figure("waiting", share, "share", label) for label, share in shares.items()),
            None,
        )
    ]
    for label, share in shares.items():
        if share >= WAIT_SHARE and share - shares[least] >= WAIT_APART:
            findings.append(
                Finding(
                    "waiting_card",
                    "high",
                    f"{label} waits {share:.0%} of its time in collectives; {least} waits least",
                    "A rank that waits is early, and not slow: the one that waits least is what the others wait for.",
                    (
                        Figure("waiting", share, "share", label),
                        Figure("waiting", shares[least], "share", least),
                    ),
                    f"{WAIT_SHARE:.0%} of the time and {WAIT_APART:.0%} more than the rank that waits least",
                    (
                        f"look at {least}: its operators, its gaps before kernels, its host threads and NUMA node",
                        "uneven work: experts, pipeline stages, data parallel batches",
                    ),
                )
            )
    return findings


def _bubbles(profiles: Sequence[RankProfile]) -> list[Finding]:
    shares = {
        profile.label: known.idle + known.communication
        for profile in profiles
        if (known := time_shares(profile)) is not None
    }
    over = {label: share for label, share in shares.items() if share >= BUBBLE_SHARE}
    if not over:
        return []
    alike = len(over) == len(shares) and max(over.values()) - min(over.values()) < WAIT_APART
    return [
        Finding(
            "bubbles",
            "medium",
            "Bubbles: the device computes nothing for much of the time",
            "Free time and communication that nothing covers, together. "
            + (
                "It is much the same on all ranks, so no single card is the reason."
                if alike and len(over) > 1
                else "Where it differs between ranks, the rank with the smallest share sets the pace."
            ),
            tuple(Figure("bubbles", share, "share", label) for label, share in over.items()),
            f"{BUBBLE_SHARE:.0%} of the time; guides report 34% on a card of a slow group",
            ("see the findings on communication, gaps before kernels, and waiting",),
        )
    ]
