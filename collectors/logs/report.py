"""What is made of a pasted log: the events by signature, the figures, and every line that no format fits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from collectors.logs.catalogue import catalogue
from collectors.logs.codes import acl_codes
from collectors.logs.events import ADVICE_LINES, Event, advised, event_of
from collectors.logs.formats import Advice, advice_in, continues, parse_line
from collectors.logs.kernel import parse_kernel, parse_kmsg
from collectors.logs.line import Line, lines_of

MAX_LISTED = 20
"""Lines that no format fits which are listed one by one; the rest is counted."""

Json = dict[str, object]


def parsed_logs(text: str) -> Json:
    """Read any mixture of plog, device, CANN, torch_npu and engine logs into values for JSON; never raises.

    `events` has one entry a signature, in order of appearance; `out_of_memory` the figures of each such error in
    bytes; `lines`, `formats` and `levels` count lines; `notes` list what no format fits; `error` is null unless
    nothing is known of any line.
    """
    return _report(text, parse_line)


def parsed_dmesg(text: str) -> Json:
    """Read the output of dmesg or of /dev/kmsg, or a device's kernel log, as `parsed_logs` does; never raises."""

    def parse(raw: str) -> Line | None:
        record = parse_kmsg(raw)
        if record is not None:
            raw = f"[{record.seconds:.6f}] {record.text}"
        return parse_kernel(raw) or parse_line(raw)

    return _report(text, parse)


def _report(text: str, parse: Callable[[str], Line | None]) -> Json:
    formats: Counter[str] = Counter()
    levels: Counter[str] = Counter()
    found: dict[str, list[tuple[int, Event]]] = {}
    unknown: list[str] = []
    latest: list[tuple[int, Event]] | None = None
    lines = list(lines_of(text))
    matcher = catalogue().narrowed("\n".join(lines))
    read = 0
    for number, raw in enumerate(lines, 1):
        if not raw.strip():
            continue
        read += 1
        line = parse(raw)
        event = event_of(raw, matcher, line)
        if event is not None:
            latest = found.setdefault(event.signature.id, [])
            latest.append((number, event))
        elif latest and number - latest[-1][0] <= ADVICE_LINES and (advice := advice_in(raw)) is not None:
            latest[-1] = (latest[-1][0], advised(latest[-1][1], advice))
        if line is not None:
            formats[line.format] += 1
            if line.level is not None:
                levels[line.level] += 1
        elif continues(raw):
            formats["continuation"] += 1
        else:
            unknown.append(f"line {number}: no known format: {raw[:160]}")
    events = [event for group in found.values() for event in group]
    return {
        "lines": read,
        "formats": dict(formats),
        "levels": dict(levels),
        "events": [_group(group) for group in found.values()],
        "out_of_memory": [
            _memory(number, event)
            for number, event in sorted(events, key=lambda pair: pair[0])
            if event.memory is not None
        ],
        "notes": [*unknown[:MAX_LISTED], *_rest(len(unknown))],
        "error": None if formats or events else "no line of a known format in it",
    }


def _rest(unknown: int) -> list[str]:
    return [f"{unknown - MAX_LISTED} more lines of no known format"] if unknown > MAX_LISTED else []


def _group(group: list[tuple[int, Event]]) -> Json:
    number, first = group[0]
    signature = first.signature
    codes = sorted({code for _, event in group for code in event.codes})
    advice = next((event.advice for _, event in group if event.advice is not None), Advice())
    stamps = [event.line.stamp for _, event in group if event.line.stamp is not None]
    return {
        "signature": signature.id,
        "severity": signature.severity,
        "meaning": signature.meaning,
        "likely_cause": signature.cause,
        "playbook": signature.playbook,
        "known_from": signature.source,
        "count": sum(event.count for _, event in group),
        "first_line_number": number,
        "first_line": _line(first.line),
        "last_stamp": stamps[-1] if stamps else None,
        "cause_it_says": advice.cause,
        "solution_it_says": advice.solution,
        "codes": [
            {"code": code, "name": acl_codes()[code].name, "meaning": acl_codes()[code].meaning}
            for code in codes
        ],
    }


def _line(line: Line) -> Json:
    return {
        "format": line.format,
        "level": line.level,
        "stamp": line.stamp,
        "module": line.module,
        "pid": line.pid,
        "process": line.process,
        "device": line.device,
        "rank": line.rank,
        "origin": line.origin,
        "text": line.text,
    }


def _memory(number: int, event: Event) -> Json:
    memory = event.memory
    assert memory is not None  # chosen by it
    return {
        "line_number": number,
        "count": event.count,
        "device": memory.device,
        "process": event.line.process,
        "pid": event.line.pid,
        "requested_bytes": memory.requested_bytes,
        "capacity_bytes": memory.capacity_bytes,
        "allocated_bytes": memory.allocated_bytes,
        "active_bytes": memory.active_bytes,
        "free_bytes": memory.free_bytes,
        "reserved_bytes": memory.reserved_bytes,
    }
