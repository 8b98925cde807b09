"""The Ascend driver's kernel lines, as dmesg, /dev/kmsg, the journal and the device's own log show them.

The driver writes `[ascend] [ERROR] [module] [function line] <comm:tgid,pid> text`. On the host it prints errors at
the priority NOTICE, so the word in brackets counts and not the kernel's priority.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from collectors.logs.line import Level, Line, level_named

_STAMP = re.compile(
    r"(?:<\d{1,3}>)?\[(?: {0,8}(?P<seconds>\d{1,10}\.\d{1,9})"
    r"|(?P<date>[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}))\] ?"
)
"""Seconds since boot, or what `dmesg -T` makes of them."""
_SYSLOG = re.compile(r"(?P<stamp>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) \S{1,253} kernel: ?")
_BRACKET = re.compile(r"\[(?P<inner>[^\]\[]{1,96})\] ?")
_FUNCTION = re.compile(r"[A-Za-z_]\w{0,95} \d{1,6}$")
_PROCESS = re.compile(r"<(?P<comm>[^>]{1,64}):(?P<tgid>\d{1,10})(?:[,:]\d{1,10})?> ?")
_KMSG = re.compile(
    r"(?P<priority>\d{1,6}),(?P<seq>\d{1,20}),(?P<usec>\d{1,20}),[^;]{0,64};(?P<text>.*)", re.DOTALL
)
_ESCAPES = re.compile(r"(?:\\x[0-9a-f]{2})+")
_PRIORITIES: tuple[Level, ...] = (
    "critical",
    "critical",
    "critical",
    "error",
    "warning",
    "notice",
    "info",
    "debug",
)


@dataclass(frozen=True, slots=True)
class KernelRecord:
    """One record of /dev/kmsg: `seq` is its number since boot, `seconds` the time since boot."""

    seq: int
    seconds: float
    level: Level
    text: str


def parse_kernel(text: str) -> Line | None:
    """Read a kernel line as dmesg, `dmesg -T` and syslog show it; None for a text without stamp and driver's mark."""
    stamp: str | None = None
    if found := _SYSLOG.match(text):
        stamp, text = found["stamp"], text[found.end() :]
    if found := _STAMP.match(text):
        stamp, text = found["seconds"] or found["date"], text[found.end() :]
    if text.startswith("[ascend] "):
        return _driver_line(text, stamp)
    return Line("kernel", text, stamp=stamp) if stamp is not None else None


def _driver_line(text: str, stamp: str | None) -> Line:
    level: Level | None = None
    module = origin = process = None
    pid: int | None = None
    at = len("[ascend] ")
    while found := _BRACKET.match(text, at):
        inner = found["inner"]
        if level is None and level_named(inner) is not None:
            level = level_named(inner)
        elif _FUNCTION.match(inner):
            origin = inner.replace(" ", ":")
        elif module is None:
            module = inner
        else:
            break
        at = found.end()
        if origin is not None:
            break
    if found := _PROCESS.match(text, at):
        tgid = found["tgid"]
        # Old drivers write the thread's number twice behind the name.
        process, pid = found["comm"].removesuffix(f":{tgid}"), int(tgid)
        at = found.end()
    return Line("kernel", text[at:], level, stamp, module, pid, process, origin=origin)


def parse_kmsg(record: str) -> KernelRecord | None:
    """Read one record of /dev/kmsg (Documentation/ABI/testing/dev-kmsg); None for anything else."""
    found = _KMSG.match(record)
    if found is None:
        return None
    # The lines behind the first one are a dictionary (SUBSYSTEM=, DEVICE=) that no reader here needs.
    text = found["text"].split("\n", 1)[0]
    text = _ESCAPES.sub(
        lambda run: bytes.fromhex(run[0].replace("\\x", "")).decode(errors="backslashreplace"), text
    )
    return KernelRecord(
        int(found["seq"]), int(found["usec"]) / 1e6, _PRIORITIES[int(found["priority"]) & 7], text
    )
