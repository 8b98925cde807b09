"""Profilers' tables: by header, with units, whole or damaged; no number that was not there."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.profile.bounded_lines import LONGEST_LINE_BYTES, BoundedLines
from collectors.profile.table import Columns, Table, TableError, whole_nanoseconds
from tests.collectors.profile.captures import near

COLUMNS: Columns = {"name": ("Op Name", "Name"), "time": ("Task Duration", "Duration"), "size": ("Size",)}


def written(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "table.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def values(path: Path) -> tuple[list[tuple[str | None, float | None]], list[str]]:
    found = Table(path, COLUMNS, ("name",))
    return [(row.text("name"), row.number("time")) for row in found], found.notes


@pytest.mark.parametrize(
    ("heading", "scaled"),
    [
        ("Task Duration(us)", 2.5e-6),
        ("Duration(ms)", 2.5e-3),
        ("task_duration(us)", 2.5e-6),
        ("Duration", 2.5),
    ],
)
def test_columns_are_found_by_their_names_over_the_versions(
    tmp_path: Path, heading: str, scaled: float
) -> None:
    rows, notes = values(written(tmp_path, f"{heading},Other,Op Name\r\n2.5\t,x,MatMul\r\n"))
    assert rows == [("MatMul", near(scaled))]
    assert notes == []


@pytest.mark.parametrize(("unit", "bytes_"), [("KB", 3072.0), ("MB", 3 * 1024.0**2), ("B", 3.0)])
def test_sizes_have_the_unit_of_their_heading(tmp_path: Path, unit: str, bytes_: float) -> None:
    (row,) = Table(written(tmp_path, f"Name,Size({unit})\na,3.0\n"), COLUMNS, ("name",))
    assert row.number("size") == bytes_


@pytest.mark.parametrize("cell", ["N/A", "", "-", "nan", "inf", "abc", "1,5"])
def test_what_is_no_number_is_unknown_and_not_zero(tmp_path: Path, cell: str) -> None:
    rows, _ = values(written(tmp_path, f'Name,Duration(us)\na,"{cell}"\n'))
    assert rows == [("a", None)]


def test_shapes_in_doubled_quotes_and_stacks_over_lines_are_one_cell(tmp_path: Path) -> None:
    text = 'Name,Shapes,Stack,Duration(us)\n"""8,128""",x,"a.py(3): f;\nb.py(4): g",7\nb,,,8\n'
    rows, notes = values(written(tmp_path, text))
    assert rows == [("8,128", 7e-6), ("b", 8e-6)]
    assert notes == []


def test_a_byte_order_mark_is_no_part_of_the_first_heading(tmp_path: Path) -> None:
    assert values(written(tmp_path, "﻿Name,Duration(us)\na,1\n".encode()))[0] == [("a", 1e-6)]


def test_a_timestamp_keeps_its_nanoseconds() -> None:
    assert whole_nanoseconds("1790000000000123.457\t") == 1_790_000_000_000_123_457
    assert whole_nanoseconds("1790000000000123") == 1_790_000_000_000_123_000
    assert whole_nanoseconds("1.79E+15") == 1_790_000_000_000_000_000
    assert whole_nanoseconds("N/A") is None
    assert whole_nanoseconds("") is None


def test_the_wrong_table_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"table\.csv: no column Op Name; this is not"):
        list(Table(written(tmp_path, "a,b\n1,2\n"), COLUMNS, ("name",)))


def test_an_empty_and_an_unreadable_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="empty"):
        list(Table(written(tmp_path, "\n\n"), COLUMNS, ("name",)))
    with pytest.raises(TableError, match="directory"):
        list(Table(tmp_path, COLUMNS, ("name",)))


def test_rows_with_missing_cells_are_left_out_and_counted(tmp_path: Path) -> None:
    rows, notes = values(written(tmp_path, "Name,Duration(us)\na,1\nb\nc,2,3\nd,4\n"))
    assert [name for name, _ in rows] == ["a", "d"]
    assert len(notes) == 1
    assert "2 rows have not the 2 cells" in notes[0]


def test_a_line_of_a_hundred_megabytes_is_left_out_in_bounded_memory() -> None:
    class Endless:
        """Hands out one line of 100 MB without holding it."""

        def __init__(self) -> None:
            self.left = 100_000_000

        def readline(self, size: int, /) -> bytes:
            assert size <= LONGEST_LINE_BYTES + 1
            if self.left <= 0:
                self.left -= 1
                return b"after,1\n" if self.left == -1 else b""
            taken = min(size, self.left)
            self.left -= taken
            return b"x" * (taken - 1) + (b"x" if self.left else b"\n")

    lines = BoundedLines(Endless())
    assert list(lines) == ["after,1\n"]
    assert lines.too_long == 1


def test_a_long_line_within_a_table_is_said_and_the_rest_is_read(tmp_path: Path) -> None:
    text = b"Name,Duration(us)\na,1\n" + b"y" * (3 * LONGEST_LINE_BYTES) + b"\nb,2\n"
    rows, notes = values(written(tmp_path, text))
    assert rows == [("a", 1e-6), ("b", 2e-6)]
    assert len(notes) == 1
    assert "1 lines of more than" in notes[0]


def test_what_is_not_utf8_is_said_and_read(tmp_path: Path) -> None:
    rows, notes = values(written(tmp_path, b"Name,Duration(us)\n\xff\xfe,1\nb,2\n"))
    assert [seconds for _, seconds in rows] == [1e-6, 2e-6]
    assert "not UTF-8" in notes[0]


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\x00\r"), max_size=30)
TIMES = st.integers(0, 10**9).map(lambda n: f"{n / 1000:.3f}")


def a_file(rows: list[tuple[str, str]], end: str) -> bytes:
    page = io.StringIO(newline="")
    writer = csv.writer(page, lineterminator=end)
    writer.writerow(("Name", "Duration(us)"))
    writer.writerows(rows)
    return page.getvalue().encode()


@given(st.lists(st.tuples(NAMES, TIMES), min_size=1, max_size=12), st.sampled_from(["\n", "\r\n"]))
def test_every_row_that_was_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]], end: str
) -> None:
    read, notes = values(written(tmp_path_factory.mktemp("t"), a_file(rows, end)))
    assert [seconds for _, seconds in read] == [near(float(time) * 1e-6) for _, time in rows]
    assert notes == []


@given(
    st.lists(st.tuples(NAMES, TIMES), min_size=1, max_size=8),
    st.integers(0, 400),
)
def test_a_cut_table_has_its_first_rows_and_says_where_it_is_in_doubt(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]], at: int
) -> None:
    whole = a_file(rows, "\n")
    cut = whole[:at]
    try:
        read, notes = values(written(tmp_path_factory.mktemp("t"), cut))
    except TableError:
        return
    times = [float(time) * 1e-6 for _, time in rows]
    sure = read if not any("may be cut" in note for note in notes) else read[:-1]
    assert [seconds for _, seconds in sure] == [near(time) for time in times[: len(sure)]]
    assert len(read) <= len(rows)


@given(
    st.lists(st.tuples(NAMES, TIMES), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(0, 300), st.binary(max_size=4)), max_size=6),
)
def test_damage_never_raises_anything_else(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]], damage: list[tuple[int, bytes]]
) -> None:
    page = bytearray(a_file(rows, "\r\n"))
    for at, added in damage:
        page[at : at + 2] = added
    try:
        read, _ = values(written(tmp_path_factory.mktemp("t"), bytes(page)))
    except TableError:
        return
    assert all(seconds is None or seconds == seconds for _, seconds in read)
