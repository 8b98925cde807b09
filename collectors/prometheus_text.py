"""Prometheus text format 0.0.4: only the families that are needed, the rest skipped line by line.

A page that was cut off is an error, never part of the data: it must end with a line feed, and a histogram
must have all its parts. Lines of families nobody asked for are not looked at beyond their name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from collectors.sample import Distribution, Labels

Shape = Literal["scalar", "histogram"]

_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\\n]|\\.)*)"\s*(?:,\s*|$)')
STAMP = re.compile(r"-?[0-9]{1,18}")
VALUE = re.compile(r"[+-]?(?:\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|[iI]nf|[nN]a[nN])")
_BLANKS = ("\t", " ")
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n", '"': '"', "\\": "\\"}


class PageError(Exception):
    """The page is not whole or not in the text format; the text says where."""


@dataclass(frozen=True, slots=True)
class Point:
    """One series of a needed family; `time` is in Unix seconds where the page gives one."""

    family: str
    labels: Labels
    value: float | Distribution
    time: float | None = None


@dataclass(slots=True)
class _Parts:
    """A histogram being put together."""

    line: int
    buckets: dict[float, float]
    sum: float | None = None
    count: float | None = None
    time: float | None = None


class PageParser:
    """Reads pages for a fixed set of families.

    `families` maps a family's name (a histogram's without `_bucket`, a counter's as it stands on the line) to
    its shape.
    """

    def __init__(self, families: Mapping[str, Shape]) -> None:
        self._wanted: dict[str, tuple[str, str]] = {}
        for family, shape in families.items():
            parts = ("_bucket", "_sum", "_count") if shape == "histogram" else ("",)
            for part in parts:
                self._wanted[family + part] = (family, part)

    def parse(self, text: str) -> list[Point]:
        """Read the needed families of a whole page.

        Raises PageError if the page is cut off, or if a line of a needed family cannot be read.
        """
        if not text.endswith("\n"):
            raise PageError("the page is cut off: it does not end with a line feed")
        wanted = self._wanted
        points: list[Point] = []
        seen: set[tuple[str, Labels]] = set()
        histograms: dict[tuple[str, Labels], _Parts] = {}
        for number, line in enumerate(text.split("\n"), 1):
            brace = line.find("{")
            target = wanted.get(line[:brace] if brace >= 0 else line.partition(" ")[0])
            if target is None:
                target = self._oddly_written(line)
                if target is None:
                    continue
            family, part = target
            pairs, bound, value, time = _read_line(line, brace, number)
            if part == "":
                if (family, pairs) in seen:
                    raise PageError(f"line {number}: {line[:120]!r} stands twice on the page")
                seen.add((family, pairs))
                points.append(Point(family, pairs, value, time))
                continue
            key = (family, pairs)
            parts = histograms.get(key)
            if parts is None:
                parts = histograms[key] = _Parts(number, {}, time=time)
            _put(parts, part, bound, value, line, number)
        points.extend(
            Point(family, pairs, _whole(family, parts), parts.time)
            for (family, pairs), parts in histograms.items()
        )
        return points

    def needs(self, line: str) -> bool:
        """Whether a line is of a needed family."""
        name = line.partition("{" if "{" in line else " ")[0]
        return name in self._wanted or self._oddly_written(line) is not None

    def _oddly_written(self, line: str) -> tuple[str, str] | None:
        """What a line is of that has blanks where writers seldom put them."""
        if line[:1] not in _BLANKS and "\t" not in line and " {" not in line:
            return None
        words = line.partition("{")[0].split(None, 1)
        return self._wanted.get(words[0]) if words else None


def _read_line(line: str, brace: int, number: int) -> tuple[Labels, float | None, float, float | None]:
    """Labels without `le`, the bound `le`, the value, the time."""
    pairs: Labels = ()
    bound: float | None = None
    if brace >= 0:
        close = line.rfind("}")
        block = _read_labels(line[brace + 1 : close]) if close > brace else None
        if block is None:
            raise PageError(f"line {number}: labels of {line[:120]!r} cannot be read")
        pairs, bound = block
        fields = line[close + 1 :].split()
    else:
        fields = line.split()[1:]
    if not 1 <= len(fields) <= 2 or VALUE.fullmatch(fields[0]) is None:
        raise PageError(f"line {number}: no value in {line[:120]!r}")
    time = None
    if len(fields) == 2:
        if STAMP.fullmatch(fields[1]) is None:
            raise PageError(f"line {number}: the timestamp of {line[:120]!r} is not a whole number")
        time = int(fields[1]) / 1000.0
    return pairs, bound, float(fields[0]), time


@lru_cache(maxsize=16384)
def _read_labels(block: str) -> tuple[Labels, float | None] | None:
    """Sorted label pairs less `le`, and `le`; None if the block is not well formed.

    The label blocks of a page are the same at every scrape, so they are remembered.
    """
    pairs: dict[str, str] = {}
    at = 0
    while at < len(block):
        match = _LABEL.match(block, at)
        if match is None or match[1] in pairs:
            return None
        pairs[match[1]] = _ESCAPE.sub(_unescape, match[2]) if "\\" in match[2] else match[2]
        at = match.end()
    bound_text = pairs.pop("le", None)
    if bound_text is None:
        return tuple(sorted(pairs.items())), None
    if VALUE.fullmatch(bound_text) is None:
        return None
    return tuple(sorted(pairs.items())), float(bound_text)


def forget_labels() -> None:
    """Drop the remembered label blocks, as before a process's first scrape."""
    _read_labels.cache_clear()


def _unescape(match: re.Match[str]) -> str:
    return _ESCAPED.get(match[1], match[0])


def _put(parts: _Parts, part: str, bound: float | None, value: float, line: str, number: int) -> None:
    if part == "_bucket":
        if bound is None or bound != bound or bound in parts.buckets:
            raise PageError(f"line {number}: bucket without a bound of its own: {line[:120]!r}")
        parts.buckets[bound] = value
    elif part == "_sum":
        if parts.sum is not None:
            raise PageError(f"line {number}: {line[:120]!r} stands twice on the page")
        parts.sum = value
    else:
        if parts.count is not None:
            raise PageError(f"line {number}: {line[:120]!r} stands twice on the page")
        parts.count = value


def _whole(family: str, parts: _Parts) -> Distribution:
    if float("inf") not in parts.buckets or parts.sum is None or parts.count is None:
        raise PageError(
            f"the page is cut off: the histogram {family} at line {parts.line} lacks buckets, _sum or _count"
        )
    bounds = tuple(sorted(parts.buckets))
    return Distribution(bounds, tuple(parts.buckets[bound] for bound in bounds), parts.sum, parts.count)
