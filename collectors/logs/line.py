"""One line of a log: what every format has in common, and the wrappers that engines put before it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

MAX_LINE = 8192
"""Characters of a line that are looked at; the rest is cut before any pattern sees it."""

Level = Literal["debug", "info", "notice", "warning", "error", "critical"]

_LEVELS: dict[str, Level] = {
    "D": "debug",
    "DEBUG": "debug",
    "TRACE": "debug",
    "I": "info",
    "INFO": "info",
    "NOTICE": "notice",
    "EVENT": "notice",
    "W": "warning",
    "WARN": "warning",
    "WARNING": "warning",
    "E": "error",
    "ERROR": "error",
    "ERR": "error",
    "F": "critical",
    "FATAL": "critical",
    "CRITICAL": "critical",
}


@dataclass(frozen=True, slots=True)
class Line:
    """One parsed line.

    `stamp` is the time as it was written: most formats say neither the zone nor, some, the year, so it is not
    turned into Unix time. `origin` is the source file and line (in the kernel: function and line). `device` and
    `rank` are the writer's own numbers, not npu-smi's. `repeats` is how many occurrences this one line stands for.
    """

    format: str
    text: str
    level: Level | None = None
    stamp: str | None = None
    module: str | None = None
    pid: int | None = None
    process: str | None = None
    device: int | None = None
    rank: int | None = None
    origin: str | None = None
    repeats: int = 1


@dataclass(frozen=True, slots=True)
class Unwrapped:
    """A line without its wrappers, and what they said."""

    text: str
    process: str | None = None
    pid: int | None = None
    rank: int | None = None
    repeats: int = 1


_COLOUR = re.compile(r"\x1b\[[0-9;]{0,16}m")
_CONTAINER = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,9}(?:Z|[+-]\d\d:\d\d) std(?:out|err) [FP] ")
_WORKER = re.compile(
    r"\((?P<process>[A-Za-z][\w.:-]{0,63})(?: rank=(?P<rank>\d{1,6}))? pid=(?P<pid>\d{1,10})[^)]{0,64}\) ?"
)
_RANK = re.compile(r"\[rank(?P<rank>\d{1,6})\]:? ?")
_REPEATED = re.compile(r" ?\[repeated (\d{1,9})x across cluster\]")
_GLUED = re.compile(
    r"(?<=\S)(?=\[(?:DEBUG|INFO|WARNING|ERROR|EVENT|TRACE)\] [A-Z][A-Z0-9_]{1,31}\(\d{1,10},[^)]{0,63}\):\d{4}-)"
)


def level_named(word: str | None) -> Level | None:
    """The level that a log's word or letter stands for; None for a word that is none."""
    return None if word is None else _LEVELS.get(word.upper())


def bounded(text: str) -> str:
    """The line cut to `MAX_LINE` characters."""
    return text if len(text) <= MAX_LINE else text[:MAX_LINE]


def unwrap(text: str) -> Unwrapped:
    """Strip what vLLM, Ray, torch and the container runtime put around a line.

    Known are `(Worker_TP1 pid=7) `, also twice, `(VllmWorker rank=3 pid=7) `, `(RayWorkerWrapper pid=7, ip=...) `,
    `[rank7]:`, Ray's `[repeated 6x across cluster]`, the container runtime's `TIME stdout F `, and colours.
    """
    if "\x1b" in text:
        text = _COLOUR.sub("", text)
    process: str | None = None
    pid: int | None = None
    rank: int | None = None
    repeats = 1
    if " std" in text and (found := _CONTAINER.match(text)):
        text = text[found.end() :]
    for _ in range(4):  # the main process repeats its workers' prefix behind its own
        if text.startswith("(") and (found := _WORKER.match(text)):
            process, pid = found["process"], int(found["pid"])
            rank = int(found["rank"]) if found["rank"] else rank
        elif text.startswith("[rank") and (found := _RANK.match(text)):
            rank = int(found["rank"])
        else:
            break
        text = text[found.end() :]
    if "[repeated " in text and (again := _REPEATED.search(text)):
        repeats = max(int(again[1]), 1)
        text = text[: again.start()] + text[again.end() :]
    return Unwrapped(text, process, pid, rank, repeats)


def lines_of(text: str) -> Iterator[str]:
    """The lines of a text, cut to `MAX_LINE`; two plog records that share a line become two lines."""
    # Progress bars redraw their line with a bare return; sparse files hold zeros where they were cut.
    for line in text.replace("\0", "").replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        yield from unglued(bounded(line))


def unglued(line: str) -> list[str]:
    """The plog records of one line: a writer that lost its line break glues the next record to the last."""
    return _GLUED.split(line) if line.find("] ", 1) > 0 and "(" in line else [line]
