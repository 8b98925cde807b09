"""The allocator is read where torch_npu is loaded already, and nothing is loaded or opened to read it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Mapping
from types import ModuleType

import pytest

from collectors.sample import CollectorError, Sample, labels
from collectors.torch_npu import ALLOCATED, RESERVED, TorchNpuCollector, loaded
from tests.prepare import ROOT

NOW = 1_700_000_000.0
GIB = 2**30


class FakeNpu:
    """Stands for `torch_npu.npu`: two devices, of which this process uses the second."""

    def __init__(self, *, initialized: bool = True) -> None:
        self._initialized = initialized
        self.opened: list[int] = []

    def is_initialized(self) -> bool:
        return self._initialized

    def device_count(self) -> int:
        return 2

    def memory_stats(self, device: int) -> Mapping[str, int]:
        assert self._initialized
        return {RESERVED: 58 * GIB, ALLOCATED: 41 * GIB} if device == 1 else {RESERVED: 0, ALLOCATED: 0}

    def mem_get_info(self, device: int) -> tuple[int, int]:
        self.opened.append(device)
        return 3 * GIB, 64 * GIB


def collected(monkeypatch: pytest.MonkeyPatch, npu: object) -> list[Sample]:
    module = ModuleType("torch_npu")
    if npu is not None:
        vars(module)["npu"] = npu
    monkeypatch.setitem(sys.modules, "torch_npu", module)
    return asyncio.run(TorchNpuCollector().collect(NOW))


def test_reserved_allocated_and_free_of_each_device_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    npu = FakeNpu()
    found = {(sample.name, sample.labels): sample.value for sample in collected(monkeypatch, npu)}
    device = labels(device="1")
    assert found == {
        ("npu_allocator_reserved_bytes", device): 58.0 * GIB,
        ("npu_allocator_allocated_bytes", device): 41.0 * GIB,
        ("npu_allocator_device_free_bytes", device): 3.0 * GIB,
    }
    assert npu.opened == [1], "a device that the process does not use stays closed"


def test_nothing_is_opened_to_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    assert collected(monkeypatch, FakeNpu(initialized=False)) == []


def test_a_module_that_is_only_half_imported_gives_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert collected(monkeypatch, None) == []


def test_a_refusal_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(FakeNpu):
        def memory_stats(self, device: int) -> Mapping[str, int]:
            raise RuntimeError("device error 507899")

    with pytest.raises(CollectorError, match="allocator's figures: device error 507899"):
        collected(monkeypatch, Broken())


def test_without_torch_npu_there_is_nothing_and_nothing_is_imported() -> None:
    assert loaded() is None
    assert asyncio.run(TorchNpuCollector().collect(NOW)) == []
    program = "import sys, collectors.torch_npu; print('torch' in sys.modules, 'torch_npu' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "False False\n"
