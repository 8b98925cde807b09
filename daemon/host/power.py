"""Huge pages and clock of the whole host: transparent huge pages, khugepaged, the frequency governor."""

from __future__ import annotations

from daemon.host.files import HostFiles
from daemon.host.setting import Setting

_HUGE_PAGES = "/sys/kernel/mm/transparent_hugepage"
_CPUFREQ = "/sys/devices/system/cpu/cpufreq"


def power_settings(files: HostFiles) -> list[Setting]:
    """The knobs, whether this host has them or not."""

    def policies(name: str) -> list[str]:
        folders = sorted(policy for policy in files.names(_CPUFREQ) if policy.startswith("policy"))
        return [f"{_CPUFREQ}/{folder}/{name}" for folder in folders]

    def governors() -> list[str]:
        offers = [(files.text(path) or "").split() for path in policies("scaling_available_governors")]
        return sorted(set.intersection(*map(set, offers))) if offers else []

    return [
        Setting(
            files,
            "transparent_hugepages",
            lambda: [f"{_HUGE_PAGES}/enabled"],
            ("never", "madvise"),
            chosen=True,
        ),
        Setting(files, "khugepaged_defrag", lambda: [f"{_HUGE_PAGES}/khugepaged/defrag"], ("0",)),
        Setting(
            files,
            "cpu_governor",
            lambda: policies("scaling_governor"),
            ("performance",),
            offered=governors,
        ),
    ]
