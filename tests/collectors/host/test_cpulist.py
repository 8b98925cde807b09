"""Lists of CPUs are read as the kernel writes them, and damage is an error."""

from __future__ import annotations

import os
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.host.cpulist import LARGEST, format_cpulist, parse_cpulist
from collectors.host.files import SystemFiles

CPUS = st.frozensets(st.integers(0, 400))


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("", set()),
        ("\n", set()),
        ("3", {3}),
        ("0-3,8\n", {0, 1, 2, 3, 8}),
        ("144-146, 148", {144, 145, 146, 148}),
        ("0-10:2/4", {0, 1, 4, 5, 8, 9}),
    ],
)
def test_a_list(text: str, cpus: set[int]) -> None:
    assert parse_cpulist(text) == cpus


@pytest.mark.parametrize(
    "text", ["3-1", "a", "1,,2", "1-", "-1", "0-9:2", "0-9:3/2", "0-99999999999", "٣", "1 2", f"{LARGEST}"]
)
def test_what_is_no_list_is_named(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no range of CPUs|takes"):
        parse_cpulist(text)


@given(CPUS)
def test_written_and_read_again_it_is_the_same(cpus: frozenset[int]) -> None:
    assert parse_cpulist(format_cpulist(cpus)) == cpus


@given(CPUS)
def test_the_shortest_writing_has_no_ranges_that_touch(cpus: frozenset[int]) -> None:
    pieces = [piece.split("-") for piece in format_cpulist(cpus).split(",") if piece]
    assert all(int(a[-1]) + 1 < int(b[0]) for a, b in pairwise(pieces))


@given(st.text(alphabet="0123456789-,:/ x\n", max_size=30))
def test_any_text_is_a_list_or_an_error(text: str) -> None:
    try:
        found = parse_cpulist(text)
    except ValueError:
        return
    assert all(0 <= cpu < LARGEST for cpu in found)
    assert found or not text.strip()


def test_this_machines_own_list() -> None:
    online = SystemFiles().text("/sys/devices/system/cpu/online")
    assert online is not None
    assert os.sched_getaffinity(0) <= parse_cpulist(online)
    assert format_cpulist(parse_cpulist(online)) == online.strip()
