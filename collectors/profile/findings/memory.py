"""HBM traffic against what the chip can do, L2 hits against sequence length, what the allocator holds."""

from __future__ import annotations

from collections.abc import Sequence

from collectors.profile.findings.finding import Figure, Finding
from collectors.profile.model import RankProfile

NOMINAL = {"910B1": 1.6e12, "910B2": 1.6e12, "910B2C": 1.6e12, "910B3": 1.6e12, "910B4": 0.8e12}
"""HBM bandwidth in bytes per second, from the product pages. `Ascend910B` alone may be any of them."""
LEAST_TASKS = 20
HIT_FALL = 0.10


def examine(profiles: Sequence[RankProfile], nominal: float | None) -> list[Finding]:
    """HBM, L2 and allocator figures; `nominal` is the HBM bandwidth in bytes per second if the user named it."""
    return _hbm(profiles, nominal) + _hits(profiles) + _allocator(profiles)


def _hbm(profiles: Sequence[RankProfile], nominal: float | None) -> list[Finding]:
    figures: list[Figure] = []
    unknown = False
    for profile in profiles:
        if profile.hbm is None:
            continue
        used = profile.hbm.read + profile.hbm.write
        full = nominal or NOMINAL.get((profile.chip or "").removeprefix("Ascend"))
        figures += [
            Figure("read", profile.hbm.read, "bytes per second", profile.label),
            Figure("written", profile.hbm.write, "bytes per second", profile.label),
        ]
        if profile.hbm.peak is not None:
            figures.append(Figure("most at once", profile.hbm.peak, "bytes per second", profile.label))
        if full is None:
            unknown = True
        else:
            figures.append(Figure("of nominal", used / full, "share", profile.label))
    if not figures:
        return []
    return [
        Finding(
            "hbm_use",
            "info",
            "HBM traffic",
            "Means over the profile, idle time included."
            + (" The nominal bandwidth of this chip is not known here." if unknown else ""),
            tuple(figures),
            None,
            ("name the nominal bandwidth: --hbm-gbps 1600 for 910B1 to 910B3, 800 for 910B4",)
            if unknown
            else (),
        )
    ]


def _hits(profiles: Sequence[RankProfile]) -> list[Finding]:
    figures: list[Figure] = []
    fallen: list[str] = []
    for profile in profiles:
        for hits in profile.l2:
            name = "all" if hits.length is None else f"up to {hits.length} tokens"
            figures.append(Figure(f"hits, {name}", hits.ratio, "share", profile.label))
        lengths = [hits for hits in profile.l2 if hits.length is not None and hits.count >= LEAST_TASKS]
        if len(lengths) > 1 and lengths[0].ratio - lengths[-1].ratio >= HIT_FALL:
            fallen.append(profile.label)
    if not figures:
        return []
    return [
        Finding(
            "l2_hits",
            "medium" if fallen else "info",
            f"L2 hits fall with the length of the input: {', '.join(fallen)}" if fallen else "L2 hits",
            "By the rows (tokens) of each task's first input, where its shape tells them; a DB profile has only "
            "samples of the whole cache, weighted by their traffic.",
            tuple(figures),
            f"{HIT_FALL:.0%} fewer for the longest inputs than for the shortest, {LEAST_TASKS} tasks each",
            (
                "shorter prefill chunks: a smaller --max-num-batched-tokens",
                "a larger KV block (--block-size 128), so that a head's keys lie together",
            )
            if fallen
            else (),
        )
    ]


def _allocator(profiles: Sequence[RankProfile]) -> list[Finding]:
    figures: list[Figure] = []
    for profile in profiles:
        for component in profile.memory:
            if component.name != "PTA":
                continue
            for name, value in (
                ("reserved at most", component.peak_reserved_bytes),
                ("allocated at most", component.peak_allocated_bytes),
            ):
                if value is not None:
                    figures.append(Figure(name, value, "bytes", profile.label))
            if component.fragmentation_ratio is not None:
                figures.append(
                    Figure(
                        "reserved and not allocated", component.fragmentation_ratio, "share", profile.label
                    )
                )
    if not figures:
        return []
    return [
        Finding(
            "allocator",
            "info",
            "What PyTorch's allocator holds",
            "(reserved - allocated) / reserved is what guides call the fragmentation index; 0.29 on average is seen "
            "in healthy profiles, so it says something only beside a profile from a good day.",
            tuple(figures),
            "none: compare with a profile of the same model from a day when it was well",
        )
    ]
