"""Memory by component and time, as a table and as a picture, of names that may be anything."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from xml.etree import ElementTree

import pytest

from collectors.profile.heat_map import COLUMNS, as_csv, as_svg
from collectors.profile.model import RankProfile
from collectors.profile.read import plan, read
from tests.collectors.profile import captures

SVG = "{http://www.w3.org/2000/svg}"


def profiles(folder: Path, *names: str) -> tuple[RankProfile, ...]:
    rows = [
        (name, captures.stamp(n * 100), 10.0 + n if name == names[0] else None, 100.0)
        for name in names
        for n in range(50)
    ]
    captures.table(
        folder / "rank1" / "memory_record.csv",
        ("Component", "Timestamp(us)", "Total Allocated(MB)", "Total Reserved(MB)"),
        rows,
    )
    return read(plan([folder])).profiles


def test_the_table_has_every_component_and_leaves_unknown_cells_empty(tmp_path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(profiles(tmp_path, "PTA", "APP")))))
    assert tuple(rows[0]) == COLUMNS
    assert {row["component"] for row in rows} == {"PTA", "APP"}
    assert max(float(row["allocated_bytes"]) for row in rows if row["component"] == "PTA") == 59 * 1024**2
    assert {row["allocated_bytes"] for row in rows if row["component"] == "APP"} == {""}
    assert float(rows[0]["start_seconds"]) >= 0


def test_the_picture_has_a_row_for_what_is_known(tmp_path: Path) -> None:
    tree = ElementTree.fromstring(as_svg(profiles(tmp_path, "PTA", "APP")))
    words = [text.text or "" for text in tree.iter(f"{SVG}text")]
    assert {"PTA, allocated", "PTA, reserved", "APP, reserved", "rank 1"} <= set(words)
    assert "APP, allocated" not in words
    opacities = [float(cell.attrib["fill-opacity"]) for cell in tree.iter(f"{SVG}rect")]
    assert max(opacities) == pytest.approx(1.0)
    assert min(opacities) > 0.05


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "a&b", "\x07bell", "=1+1", 'x"y'])
def test_names_from_a_profile_stay_names(tmp_path: Path, name: str) -> None:
    found = profiles(tmp_path, name)
    picture = as_svg(found)
    ElementTree.fromstring(picture)
    assert "<script" not in picture
    assert not [row for row in csv.reader(io.StringIO(as_csv(found))) if row[1].startswith("=")]


def test_no_memory_says_so(tmp_path: Path) -> None:
    assert "No profile has memory records" in as_svg(())
    assert as_csv(()) == ",".join(COLUMNS) + "\n"
