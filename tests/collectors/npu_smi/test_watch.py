"""Rows of the watch stream."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.npu_smi.watch import WatchReader, parse_watch

FIXTURES = Path(__file__).parent.parent / "fixtures" / "npu_smi"
HEADER = "NpuID(Idx)  ChipId(Idx) Pwr(W)      Temp(C)     AI Core(%)  Memory BW(%)\n"


def test_the_last_row_of_each_chip_counts() -> None:
    watch = parse_watch((FIXTURES / "watch_a3.txt").read_text())
    assert (watch.seen, watch.notes) == (3, ())
    first, second = watch.rows
    assert (first.npu, first.chip) == ("4", "0")
    assert first.values == {
        "power_watts": 172.0,
        "temperature_celsius": 50.0,
        "aicore_usage_ratio": 0.65,
        "aicpu_usage_ratio": 0.0,
        "ctrlcpu_usage_ratio": 0.06,
        "memory_usage_ratio": 0.9,
        "memory_bandwidth_usage_ratio": 0.38,
        "overall_usage_ratio": 0.67,
        "cube_usage_ratio": 0.59,
    }
    assert second.values["power_watts"] is None
    assert second.values["aicpu_usage_ratio"] is None


def test_columns_go_by_header() -> None:
    [row] = parse_watch("NpuID(Idx)  Temp(C)  Pwr(W)\n7  61  250.5\n").rows
    assert (row.npu, row.chip, row.values) == ("7", None, {"temperature_celsius": 61.0, "power_watts": 250.5})


@pytest.mark.parametrize(
    ("line", "note"),
    [
        ("0 0 90.1 34 5", "not a row of the watch"),
        ("0 0 90.1 34 5 6 7", "not a row of the watch"),
        ("x 0 90.1 34 5 6", "not a row of the watch"),
        ("0 y 90.1 34 5 6", "the chip is 'y'"),
        ("0 0 90,1 34 5 6", "pwr(w) is '90,1'"),
        ("0 0 90.1 34 101 6", "aicore(%) is '101'"),
        ("0 0 nan 34 5 6", "pwr(w) is 'nan'"),
        ("Failed to query it", "not a row of the watch"),
    ],
)
def test_what_cannot_be_read_is_told(line: str, note: str) -> None:
    watch = parse_watch(HEADER + line + "\n")
    assert [one for one in watch.notes if note in one and "line 2" in one]
    for row in watch.rows:
        assert len(row.values) == 3, "the cell is absent and the others are there"


def test_a_strange_column_is_told_and_the_rest_read() -> None:
    watch = parse_watch("NpuID(Idx) Pwr(W) Flux(GW)\n0 91.0 3\n")
    assert watch.rows[0].values == {"power_watts": 91.0}
    assert "column 'flux(gw)' is not known" in watch.notes[0]


def test_rows_before_a_header_are_no_rows() -> None:
    watch = parse_watch("0 0 90.1 34 5 6\n" + HEADER)
    assert (watch.rows, len(watch.notes)) == ((), 1)


def test_a_stream_tells_each_kind_of_damage_once() -> None:
    reader = WatchReader()
    reader.line(1, HEADER)
    for number in range(1000):
        assert reader.line(number, "nonsense") is None
    assert len(reader.notes) == 1


@given(st.lists(st.text(st.sampled_from("0123456789.-NA% ()xyz\t"), max_size=60), max_size=20))
def test_any_lines_are_read_or_told(lines: list[str]) -> None:
    watch = parse_watch(HEADER + "\n".join(lines))
    told_or_read = watch.seen + len(watch.notes)
    assert told_or_read >= sum(bool(line.strip()) for line in lines)
    for row in watch.rows:
        assert all(value is None or value == value for value in row.values.values())
