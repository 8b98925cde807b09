"""The kernel's entries of the journal, through a real program."""

from __future__ import annotations

import asyncio
import json
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.logs.journal import Journal, parse_journal


def row(cursor: str, message: object, microseconds: str = "8123456789") -> str:
    return json.dumps(
        {"__CURSOR": cursor, "MESSAGE": message, "_SOURCE_MONOTONIC_TIMESTAMP": microseconds, "PRIORITY": "5"}
    )


def journalctl(folder: Path, body: str) -> tuple[str, ...]:
    path = folder / "journalctl"
    path.write_text(f'#!/bin/sh\necho "$@" >> {folder}/asked\n{body}\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return (str(path),)


def test_entries_become_lines_of_dmesg() -> None:
    reading = parse_journal("\n".join([row("a", "one\nmore"), row("b", [99, 97, 102, 195, 169, 255]), ""]))
    assert reading.lines == ["[ 8123.456789] one", "[ 8123.456789] café\\xff"]
    assert (reading.cursor, reading.notes) == ("b", [])


def test_damaged_entries_are_counted() -> None:
    rows = ["{", "[1]", row("a", None), row("b", [300]), row("c", "sound", "soon"), "-- No entries --"]
    reading = parse_journal("\n".join(rows))
    assert reading.lines == ["[    0.000000] sound"]
    assert reading.notes == ["journalctl: 4 entries could not be read"]


@given(st.text())
def test_any_text(text: str) -> None:
    parse_journal(text)
    parse_journal(row("a", text, text))


def test_the_end_is_found_first_and_then_what_comes(tmp_path: Path) -> None:
    command = journalctl(tmp_path, f"echo '{row('a', 'old')}'")
    journal = Journal(command)
    assert asyncio.run(journal.read()).lines == []
    journalctl(tmp_path, f"echo '{row('b', 'new')}'")
    assert asyncio.run(journal.read()).lines == ["[ 8123.456789] new"]
    journalctl(tmp_path, "echo '-- No entries --'")
    assert asyncio.run(journal.read()).lines == []
    assert journal.cursor == "b"
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked[0] == "-k -o json --no-pager -n 1"
    assert asked[1].endswith("--after-cursor a")
    assert asked[2].endswith("--after-cursor b")


@pytest.mark.parametrize(
    ("body", "note"),
    [
        ("echo 'No journal files were opened due to insufficient permissions.' >&2; exit 1", "insufficient"),
        ("exit 3", "exit code 3: no text"),
        ("sleep 60", "no answer within 0.3 s"),
    ],
)
def test_a_journal_that_cannot_be_read_is_a_note(tmp_path: Path, body: str, note: str) -> None:
    journal = Journal(journalctl(tmp_path, body), cursor="kept", timeout_seconds=0.3)
    reading = asyncio.run(journal.read())
    assert reading.lines == []
    assert note in reading.notes[0]
    assert journal.cursor == "kept"


def test_a_cursor_that_is_gone_is_given_up(tmp_path: Path) -> None:
    journal = Journal(journalctl(tmp_path, "echo 'Failed to seek to cursor: x' >&2; exit 1"), cursor="gone")
    assert asyncio.run(journal.read()).notes
    assert journal.cursor is None


def test_too_many_entries_are_said(tmp_path: Path) -> None:
    rows = tmp_path / "rows"
    rows.write_text("\n".join(row(str(number), "x") for number in range(2000)))
    reading = asyncio.run(Journal(journalctl(tmp_path, f"cat {rows}"), cursor="kept").read())
    assert len(reading.lines) == 2000
    assert reading.notes == ["journalctl: 2000 entries or more waited; older ones were passed over"]


def test_no_journal_at_all_is_a_note(tmp_path: Path) -> None:
    reading = asyncio.run(Journal((str(tmp_path / "none"),)).read())
    assert "not found" in reading.notes[0]
    with pytest.raises(ValueError, match="empty"):
        Journal(())
