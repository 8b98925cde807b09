"""Where the needed figures stand on a page of metrics, so that the next page of the same lines is quickly read.

A page has the same lines at every scrape but for their values. What a line's name and labels mean is worked out when
the page is first seen; after that each line is only compared with what it began with.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from collectors.prometheus_text import STAMP, VALUE, PageParser

_FIGURE = re.compile(rf"\s*({VALUE.pattern})(?:\s+({STAMP.pattern}))?\s*")

Figure = tuple[float, float | None]
"""A value, and its time in Unix seconds where the page gives one."""


@dataclass(frozen=True, slots=True)
class PageLayout:
    """The lines of a page but for the blank ones: what each begins with, and its length if its figure is needed."""

    heads: tuple[str, ...]
    needed: tuple[int, ...]

    @classmethod
    def of(cls, text: str, parser: PageParser) -> PageLayout:
        """The layout of a page which `parser` has read; its families are single series, not histograms."""
        heads, needed = [], []
        for line in filter(None, text.split("\n")):
            is_needed = parser.needs(line)
            size = _figure_begins(line) if is_needed else _name_ends(line)
            heads.append(sys.intern(line[:size]))
            needed.append(size if is_needed else 0)
        return cls(tuple(heads), tuple(needed))

    def only(self, chosen: Iterable[bool]) -> tuple[int, ...]:
        """What `read` needs to read only some of the needed figures, one truth for each."""
        choice = iter(chosen)
        return tuple(size if size and next(choice) else 0 for size in self.needed)

    def read(self, text: str, needed: Sequence[int] | None = None) -> list[Figure] | None:
        """The figures in the order of the page; None if it has other lines or one that cannot be read."""
        lines = list(filter(None, text.split("\n")))
        if not text.endswith("\n") or len(lines) != len(self.heads):
            return None
        found: list[Figure] = []
        for line, head, size in zip(lines, self.heads, needed or self.needed, strict=True):
            if not line.startswith(head):
                return None
            if size:
                match = _FIGURE.fullmatch(line, size)
                if match is None:
                    return None
                value, stamp = match.groups()
                found.append((float(value), None if stamp is None else int(stamp) / 1000.0))
        return found


def _name_ends(line: str) -> int:
    """Behind the name and what parts it from labels or value."""
    name = line.partition("{" if "{" in line else " ")[0]
    return len(name) + 1


def _figure_begins(line: str) -> int:
    """Behind the labels or, where there are none, behind the name and a blank."""
    if "{" in line:
        return line.rindex("}") + 1
    start = len(line) - len(line.lstrip())
    return start + len(line[start:].split(None, 1)[0]) + 1
