"""The driver's return codes are told in words."""

from __future__ import annotations

from collectors.dcmi.codes import CODES, NOT_SUPPORTED, meaning


def test_no_two_codes_end_with_the_same_exit_code() -> None:
    assert len({code & 0xFF for code in CODES}) == len(CODES)


def test_a_code_says_what_it_is_and_what_mends_it() -> None:
    assert str(meaning(-8007)) == "no such device; see `npu-smi info -l`"
    assert str(meaning(NOT_SUPPORTED)) == "not supported by this device"
    assert "not known; look it up" in str(meaning(-9999))
