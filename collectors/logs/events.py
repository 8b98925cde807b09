"""From lines to events: what was seen, how often, with which codes and figures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from collectors.logs.catalogue import UNRECOGNISED, Catalogue, Matcher, Signature
from collectors.logs.codes import codes_in
from collectors.logs.formats import Advice, advice_in, continues, parse_line
from collectors.logs.line import Line, unwrap
from collectors.logs.memory import MARK, OutOfMemory, parse_out_of_memory

MAX_TEXT = 400
"""Characters of a line that an event keeps."""
ADVICE_LINES = 6
"""CANN's advice stands within this many lines below its error."""

_ERRORS = ("error", "critical")


@dataclass(frozen=True, slots=True)
class Event:
    """One line that means something.

    `count` is how many occurrences it stands for, `line` what is known of it (text cut to `MAX_TEXT`), `codes` the
    ACL codes in it, `memory` the figures of an out-of-memory error, `advice` what CANN wrote below it.
    """

    signature: Signature
    line: Line
    count: int = 1
    codes: tuple[int, ...] = ()
    memory: OutOfMemory | None = None
    advice: Advice | None = None


def events_of(lines: Iterable[str], shipped: Catalogue) -> list[Event]:
    """The events in bounded lines, which are searched together: give it a block, not a line."""
    block = list(lines)
    matcher = shipped.narrowed("\n".join(block))
    found: list[Event] = []
    last = 0
    for number, raw in enumerate(block):
        event = event_of(raw, matcher)
        if event is not None:
            found.append(event)
            last = number
        elif found and number - last <= ADVICE_LINES and (advice := advice_in(raw)) is not None:
            found[-1] = advised(found[-1], advice)
    return found


def advised(event: Event, advice: Advice) -> Event:
    """The event with what CANN wrote below it; the first cause and the first solution count."""
    known = event.advice or Advice()
    merged = Advice(known.cause or advice.cause, known.solution or advice.solution)
    return replace(event, advice=merged)


def event_of(raw: str, matcher: Matcher, parsed: Line | None = None) -> Event | None:
    """The event of one bounded line, or None; `parsed` saves reading its format once more."""
    signature = matcher.match(raw)
    if signature is None:
        if parsed is None and not _may_be_error(raw):
            return None
        parsed = parsed or parse_line(raw)
        # The frames and remarks behind an error are of level error too, and are not errors of their own.
        if parsed is None or parsed.level not in _ERRORS or continues(parsed.text):
            return None
        signature = UNRECOGNISED
    line = parsed or parse_line(raw) or _plain(raw)
    return Event(
        signature,
        _cut(line),
        line.repeats,
        codes_in(raw),
        parse_out_of_memory(raw) if MARK in raw else None,
    )


def _may_be_error(raw: str) -> bool:
    """Whether a line may be of level error: told by plain searches, since most lines are not."""
    return (
        "ERROR" in raw
        or "rror" in raw
        or "CRITICAL" in raw
        or "FATAL" in raw
        or "[E" in raw
        or "[F" in raw
        or raw.startswith(("E", "F"))
    )


def _plain(raw: str) -> Line:
    wrapped = unwrap(raw)
    return Line(
        "text",
        wrapped.text.strip(),
        pid=wrapped.pid,
        process=wrapped.process,
        rank=wrapped.rank,
        repeats=wrapped.repeats,
    )


def _cut(line: Line) -> Line:
    return line if len(line.text) <= MAX_TEXT else replace(line, text=line.text[: MAX_TEXT - 1] + "…")
