"""Numbers of /proc/sys that serving feels."""

from __future__ import annotations

from daemon.host.files import HostFiles
from daemon.host.setting import Setting

_COST = "/proc/sys/kernel/sched_migration_cost_ns"
_COST_SINCE_5_13 = "/sys/kernel/debug/sched/migration_cost_ns"


def sysctl_settings(files: HostFiles) -> list[Setting]:
    """The knobs, whether this kernel has them or not."""

    def one(knob: str, path: str, *trials: str) -> Setting:
        return Setting(files, knob, lambda: [path], trials)

    return [
        one("numa_balancing", "/proc/sys/kernel/numa_balancing", "0"),
        one("swappiness", "/proc/sys/vm/swappiness", "10", "0"),
        Setting(
            files,
            "sched_migration_cost_ns",
            lambda: [_COST if files.exists(_COST) else _COST_SINCE_5_13],
            ("5000000",),
        ),
        # None is worth a trial by itself: what a reservation is good for depends on who asks for it.
        one("hugepages", "/proc/sys/vm/nr_hugepages"),
    ]
