"""The lines of a tool's output, numbered as a person counts them."""

from __future__ import annotations

from collections.abc import Iterator

MAX_LINE = 4096
"""None of the tools prints one near as long; a longer one is not worth a parser's time."""


def numbered(text: str, notes: list[str]) -> Iterator[tuple[int, str]]:
    """Each line that is not blank, stripped, with its number; one over `MAX_LINE` characters becomes a note."""
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > MAX_LINE:
            notes.append(f"line {number}: over {MAX_LINE} characters: {line[:100]}")
        elif line.strip():
            yield number, line.strip()
