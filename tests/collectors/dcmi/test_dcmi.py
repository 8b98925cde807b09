"""What the driver's bits and readings become; the library itself is asked in test_dcmi_library.py."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.dcmi.dcmi import DcmiCollector, Device, device_samples, reduction_reasons
from collectors.dcmi.library import Clock
from collectors.sample import CollectorError, labels

NOW = 1_700_000_000.0
CHIP = labels(npu="2", chip="0")


def test_a_file_that_is_no_library_is_an_error(tmp_path: Path) -> None:
    garbage = tmp_path / "libdcmi.so"
    with pytest.raises(CollectorError, match=r"cannot be loaded.*No such file.*LD_LIBRARY_PATH"):
        asyncio.run(DcmiCollector(garbage).collect(NOW))
    garbage.write_bytes(bytes(range(256)) * 64)
    with pytest.raises(CollectorError, match="cannot be loaded"):
        asyncio.run(DcmiCollector(garbage).collect(NOW))


def test_a_chip_that_says_nothing_has_no_samples() -> None:
    assert device_samples(Device(2, 0), CHIP, NOW) == []


def test_a_clock_of_zero_is_no_reading() -> None:
    found = device_samples(Device(2, 0, clock=Clock(1800, 0)), CHIP, NOW)
    assert [(sample.name, sample.value) for sample in found] == [("npu_aicore_rated_frequency_hertz", 1.8e9)]


@pytest.mark.parametrize(
    ("reasons", "throttled"), [((), 0.0), (("idle",), 0.0), (("idle", "power_cap"), 1.0), (("bit_40",), 1.0)]
)
def test_anything_but_idleness_is_throttling(reasons: tuple[str, ...], throttled: float) -> None:
    found = device_samples(Device(2, 0, reasons=reasons), CHIP, NOW)
    assert [sample.value for sample in found if sample.name == "npu_throttled"] == [throttled]
    assert sum(sample.name == "npu_clock_reduced" for sample in found) == len(reasons)


@given(st.integers(min_value=0, max_value=2**64 - 1))
def test_every_bit_is_a_reason(bits: int) -> None:
    reasons = reduction_reasons(bits)
    assert len(set(reasons)) == len(reasons) == bits.bit_count()


def test_bits_that_the_reference_does_not_name_keep_their_number() -> None:
    assert reduction_reasons(1 << 1 | 1 << 10 | 1 << 63) == ("bit_1", "power_cap", "bit_63")
