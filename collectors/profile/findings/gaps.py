"""Times when the device waited for the host, many small transfers, copies and allocations on the way."""

from __future__ import annotations

from collections.abc import Sequence

from collectors.profile.findings.finding import Figure, Finding
from collectors.profile.findings.shares import time_shares
from collectors.profile.gathering import SMALL_BYTES
from collectors.profile.model import ApiCall, Copies, RankProfile
from collectors.profile.timeline import HOST_GAP_SECONDS

GAP_SHARE = 0.10
SMALL_COUNT_SHARE = 0.5
SMALL_COUNT = 100
COPY_SHARE = 0.05
COPY_SHARE_HIGH = 0.15
MALLOCS = 10


def examine(profiles: Sequence[RankProfile]) -> list[Finding]:
    """Host gaps, small transfers, copies, device allocations."""
    return _gaps(profiles) + _small(profiles) + _copies(profiles) + _mallocs(profiles)


def _gaps(profiles: Sequence[RankProfile]) -> list[Finding]:
    figures: list[Figure] = []
    worst = 0.0
    for profile in profiles:
        line = profile.timeline
        if line is None or line.span_seconds <= 0 or line.gap_seconds < GAP_SHARE * line.span_seconds:
            continue
        share = line.gap_seconds / line.span_seconds
        worst = max(worst, share)
        figures += [
            Figure("gaps of the time", share, "share", profile.label),
            Figure("gaps", line.gap_count, "count", profile.label),
            *(
                Figure(f"before {gap.before}", gap.seconds, "seconds", profile.label)
                for gap in line.longest_gaps
            ),
        ]
    if not figures:
        return []
    return [
        Finding(
            "host_gaps",
            "high" if worst >= 3 * GAP_SHARE else "medium",
            "The device waits for the host before kernels",
            "Gaps in which no task of any kind ran, and the task that came next. The host had not launched it yet.",
            tuple(figures),
            f"gaps of at least {HOST_GAP_SECONDS * 1e6:.0f} us, together {GAP_SHARE:.0%} of the time",
            (
                "graph mode: one launch for many kernels",
                "TASK_QUEUE_ENABLE=2 and CPU_AFFINITY_CONF for torch_npu's launching threads",
                "look at the host: threads moved between nodes, interrupts on their cores, the governor",
            ),
        )
    ]


def _small(profiles: Sequence[RankProfile]) -> list[Finding]:
    figures: list[Figure] = []
    for profile in profiles:
        for transfers in profile.transfers:
            if transfers.small_count < max(SMALL_COUNT, SMALL_COUNT_SHARE * transfers.count):
                continue
            figures += [
                Figure(f"{transfers.transport}: small", transfers.small_count, "count", profile.label),
                Figure(
                    f"{transfers.transport}: small of all",
                    transfers.small_count / transfers.count,
                    "share",
                    profile.label,
                ),
                Figure(
                    f"{transfers.transport}: time of the small",
                    transfers.small_seconds,
                    "seconds",
                    profile.label,
                ),
            ]
            if transfers.small_seconds > 0:
                rate = transfers.small_bytes / transfers.small_seconds
                figures.append(
                    Figure(
                        f"{transfers.transport}: rate of the small", rate, "bytes per second", profile.label
                    )
                )
    if not figures:
        return []
    return [
        Finding(
            "small_transfers",
            "medium",
            "Many small transfers",
            f"Bursts under {SMALL_BYTES / 1e6:.0f} MB: the set-up of each costs as much as its bytes.",
            tuple(figures),
            f"at least {SMALL_COUNT} and {SMALL_COUNT_SHARE:.0%} of a transport's transfers",
            (
                "for copies: pinned buffers, and several tensors in one copy",
                "for collectives: larger batches, or a smaller tensor parallel size",
                "for disaggregated KV transfer: more blocks in one transfer",
            ),
        )
    ]


def _copies(profiles: Sequence[RankProfile]) -> list[Finding]:
    figures: list[Figure] = []
    worst = 0.0
    for profile in profiles:
        shares = time_shares(profile)
        if shares is not None:
            parts = [(copies, copies.seconds / shares.total_seconds) for copies in profile.copies]
            worst = max(worst, sum(share for copies, share in parts if not _within_the_device(copies)))
            for copies, share in parts:
                figures += [
                    Figure(f"copies ({copies.direction}) of the time", share, "share", profile.label),
                    Figure(f"copies ({copies.direction})", copies.count, "count", profile.label),
                ]
                if copies.bytes is not None:
                    figures.append(
                        Figure(f"copied ({copies.direction})", copies.bytes, "bytes", profile.label)
                    )
        for call in _calls(profile, "aclrtMemcpy"):
            figures.append(Figure(f"{call.name}, time on the host", call.seconds, "seconds", profile.label))
    if not figures:
        return []
    over = worst >= COPY_SHARE
    return [
        Finding(
            "copies",
            "high" if worst >= COPY_SHARE_HIGH else "medium" if over else "info",
            "Copies take much of the time" if over else "Copies",
            "Copy tasks on the device, by the direction that the profile names; `unknown` also holds copies within "
            "the device. Text profiles of torch_npu have only the host's time in the copying calls.",
            tuple(figures),
            f"{COPY_SHARE:.0%} of the time; guides report 18% as a fault that was worth mending",
            (
                "pinned memory and copies that do not block (aclrtMemcpyAsync)",
                "keep what each step needs on the device: sampling parameters, block tables",
                "less KV swapping: a larger --gpu-memory-utilization or fewer sequences at once",
            )
            if over
            else (),
        )
    ]


def _within_the_device(copies: Copies) -> bool:
    """Whether the profile says that no host memory was in it, as `device to device`."""
    return "host" not in copies.direction.lower() and copies.direction != "unknown"


def _mallocs(profiles: Sequence[RankProfile]) -> list[Finding]:
    figures: list[Figure] = []
    worst = 0
    known = False
    for profile in profiles:
        if not profile.apis:
            continue
        known = True
        calls = [call for call in _calls(profile, "aclrtMalloc") if "Host" not in call.name]
        worst = max(worst, sum(call.count for call in calls))
        figures += [Figure(call.name, call.count, "count", profile.label) for call in calls]
        figures += [Figure(f"{call.name}, time", call.seconds, "seconds", profile.label) for call in calls]
    if not known or not figures:
        return []
    over = worst >= MALLOCS
    return [
        Finding(
            "device_mallocs",
            "medium" if over else "info",
            "Device memory is allocated while the model runs" if over else "Device allocations",
            "Calls that take memory from the driver, which waits for the device. A warmed-up server makes none: its "
            "allocator serves from what it has reserved.",
            tuple(figures),
            f"{MALLOCS} calls within the profile",
            (
                "PYTORCH_NPU_ALLOC_CONF=expandable_segments:True",
                "warm up with the longest prompts and largest batches before traffic",
                "a smaller --gpu-memory-utilization if the allocator frees and takes again (fragmentation)",
            )
            if over
            else (),
        )
    ]


def _calls(profile: RankProfile, prefix: str) -> list[ApiCall]:
    return [call for call in profile.apis if call.name.startswith(prefix)]
