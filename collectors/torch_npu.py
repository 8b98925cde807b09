"""PyTorch's allocator on NPUs, in a process that uses torch_npu already; in any other process there is nothing.

The allocator's figures are known only inside the process that allocates. The daemon is another process, so this source
serves those who run Trimtab's collectors within their own: it looks for the loaded module and never imports it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Protocol, cast

from collectors.blocking import Blocking
from collectors.sample import CollectorError, Sample, labels

RESERVED, ALLOCATED = "reserved_bytes.all.current", "allocated_bytes.all.current"
"""Keys of `torch_npu.npu.memory_stats`, in bytes."""


class TorchNpu(Protocol):
    """The part of `torch_npu.npu` that is used; its devices are those that the process may see."""

    def is_initialized(self) -> bool: ...
    def device_count(self) -> int: ...
    def memory_stats(self, device: int) -> Mapping[str, int]: ...
    def mem_get_info(self, device: int) -> tuple[int, int]: ...


def loaded() -> TorchNpu | None:
    """`torch_npu.npu`, where this process has imported it to the end; else None."""
    found = getattr(sys.modules.get("torch_npu"), "npu", None)
    return cast(TorchNpu, found) if found is not None else None


def allocator_samples(npu: TorchNpu, now: float) -> list[Sample]:
    """Reserved, allocated and free bytes of each device on which this process holds memory.

    Others are not asked, since asking would open the device for this process.
    """
    if not npu.is_initialized():
        return []
    samples: list[Sample] = []
    for device in range(npu.device_count()):
        statistics = npu.memory_stats(device)
        reserved, allocated = statistics.get(RESERVED, 0), statistics.get(ALLOCATED)
        if reserved <= 0 or allocated is None:
            continue
        free, _ = npu.mem_get_info(device)
        own = labels(device=str(device))
        samples += [
            Sample("npu_allocator_reserved_bytes", float(reserved), now, own),
            Sample("npu_allocator_allocated_bytes", float(allocated), now, own),
            Sample("npu_allocator_device_free_bytes", float(free), now, own),
        ]
    return samples


class TorchNpuCollector:
    """Reads the allocator of this process; without torch_npu it gives nothing, and that is no failure."""

    name = "torch_npu"

    def __init__(self, *, interval_seconds: float = 5.0) -> None:
        self.interval_seconds = interval_seconds
        self._calls: Blocking[list[Sample]] = Blocking(
            "torch-npu-collector", "the driver may hang: see dmesg"
        )

    async def collect(self, now: float) -> list[Sample]:
        """Read once; raises CollectorError if torch_npu refuses."""
        npu = loaded()
        if npu is None:
            return []
        try:
            return await self._calls.run(lambda: allocator_samples(npu, now))
        except (RuntimeError, AttributeError) as failure:
            raise CollectorError(f"torch_npu does not give its allocator's figures: {failure}") from failure
