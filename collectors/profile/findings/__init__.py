"""All findings about a set of profiles, one module for each family."""

from __future__ import annotations

from collections.abc import Sequence

from collectors.profile.findings import fusion, gaps, links, memory, operators, ranks, shares
from collectors.profile.findings.finding import Figure, Finding, Severity, Unit
from collectors.profile.model import RankProfile
from collectors.profile.switches import Installed

__all__ = ["Figure", "Finding", "Severity", "Unit", "examine"]

_ORDER: dict[Severity, int] = {"high": 0, "medium": 1, "info": 2}


def examine(
    profiles: Sequence[RankProfile],
    *,
    hbm_nominal: float | None = None,
    installed: Installed | None = None,
) -> list[Finding]:
    """Findings, the gravest first.

    Ranks and links are compared within one form, since the forms measure the same run a little differently.
    `hbm_nominal` is the chip's HBM bandwidth in bytes per second, `installed` the vllm-ascend whose switches are named.
    """
    found: list[Finding] = []
    found += shares.examine(profiles)
    found += operators.examine(profiles)
    found += gaps.examine(profiles)
    found += fusion.examine(profiles, installed)
    for form in ("text", "db"):
        alike = [profile for profile in profiles if profile.form == form]
        found += ranks.examine(alike) + links.examine(alike)
    found += memory.examine(profiles, hbm_nominal)
    return sorted(found, key=lambda finding: _ORDER[finding.severity])
