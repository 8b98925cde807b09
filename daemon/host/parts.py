"""Puts the hand of the host lane together for one engine and one root."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from change.host import HostError
from change.host_knobs import ENGINE_KNOBS
from collectors.host.binding import CpuBinding
from daemon.host.engine import OwnEngine
from daemon.host.files import HostFiles
from daemon.host.hand import HostHand, Part
from daemon.host.irq import Interrupts
from daemon.host.kernel import Kernel, LinuxKernel
from daemon.host.pages import Pages
from daemon.host.power import power_settings
from daemon.host.sysctl import sysctl_settings
from daemon.host.threads import READING_SECONDS, Threads

BOOT_ID = "/proc/sys/kernel/random/boot_id"


def host_hand(
    engine_pid: Callable[[], int | None],
    *,
    root: Path = Path("/"),
    kernel: Kernel | None = None,
    allowed: Collection[str] = ENGINE_KNOBS,
    near: Callable[[frozenset[int]], Iterable[int]] = lambda pids: (),
    binding: Callable[[], CpuBinding] = lambda: CpuBinding({}),
    pause: Callable[[float], None] = time.sleep,
    reading_seconds: float = READING_SECONDS,
) -> HostHand:
    """The host lane of the engine whose main process is `engine_pid`, below `root`.

    `near` gives the nodes of the NPUs that these processes use; the rest is as for the parts.
    """
    files = HostFiles(root)
    engine = OwnEngine(files, engine_pid)
    hands = kernel if kernel is not None else LinuxKernel()

    def near_engine() -> Iterable[int]:
        return near(frozenset(process.pid for process in engine.processes()))

    threads = Threads(
        engine, hands, near=near_engine, binding=binding, pause=pause, reading_seconds=reading_seconds
    )
    parts: list[Part] = [
        threads,
        Pages(engine, hands, "private", near=near_engine),
        Pages(engine, hands, "shared", near=near_engine),
        *power_settings(files),
        Interrupts(files, threads.compute_cpus, lambda: bound_interrupts(binding())),
        *sysctl_settings(files),
    ]
    return HostHand(
        {part.knob: part for part in parts}, allowed=allowed, others=engine.others, blind=engine.blind
    )


def bound_interrupts(binding: CpuBinding) -> frozenset[int]:
    """The interrupts that vllm-ascend bound itself."""
    return frozenset(irq for npu in binding.npus.values() for irq, _ in npu.interrupts.values())


def kernel_boot_id(root: Path = Path("/")) -> str:
    """The name of this boot of the host; raises `HostError` where the kernel shows none."""
    text = (HostFiles(root).text(BOOT_ID) or "").strip()
    if not text:
        raise HostError(f"{BOOT_ID} cannot be read, so nobody could tell this boot's changes from another's")
    return text
