"""The formats of single lines: plog, torch_npu, CANN, vLLM, SGLang, glog, MindIE and what else stands beside them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from collectors.logs.kernel import parse_kernel
from collectors.logs.line import Level, Line, level_named, unwrap

_ORIGIN = r"(?P<origin>[^\]\s]{1,200}:\d{1,7})"
_DASHED = r"\d{4}-\d\d-\d\d-\d\d:\d\d:\d\d(?:\.\d{1,9}){0,2}"
_SPACED = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
_CLOCK = r"\d\d:\d\d:\d\d\.\d{1,9}"

_FORMATS: dict[str, tuple[tuple[str, str], ...]] = {
    "[": (
        # CANN's host and device logs (plog, slog); the empty process is the newer form.
        (
            "plog",
            rf"\[(?P<level>[A-Z]{{4,8}})\] (?P<module>[A-Z][A-Z0-9_]{{0,31}})\((?P<pid>\d{{1,10}}),"
            rf"(?P<process>[^)]{{0,63}})\):(?P<stamp>{_DASHED}) ?(?P<text>.*)",
        ),
        (
            "torch_npu",
            rf"\[(?P<level>[A-Z]{{4,8}})\] (?P<stamp>{_DASHED}) \(PID:(?P<pid>\d{{1,10}}), "
            r"Device:(?P<device>-?\d{1,6}), RankID:(?P<rank>-?\d{1,6})\) (?P<text>.*)",
        ),
        ("torch_npu", r"\[(?P<level>Error)\]: ?(?P<text>.*)"),
        ("cann", rf"\[PID: (?P<pid>\d{{1,10}})\] (?P<stamp>{_DASHED}) (?P<text>.*)"),
        ("glog", rf"\[(?P<level>[IWEF])(?P<stamp>\d{{3,4}} {_CLOCK}) {_ORIGIN}\] ?(?P<text>.*)"),
        # The hardware services' log (device plugin, npu-exporter, noded).
        (
            "mindx",
            rf"\[(?P<level>[A-Z]{{4,8}})\]\s{{1,8}}(?P<stamp>\d{{4}}/\d\d/\d\d {_CLOCK}) \d{{1,10}}\s{{1,8}}"
            r"(?P<origin>[^\s\]]{1,200}:\d{1,7})\s{1,8}(?P<text>.*)",
        ),
        (
            "mindie",
            rf"\[(?P<stamp>{_SPACED}\.\d{{1,9}}(?:[+-]\d\d:?\d\d)?)\] \[(?P<pid>\d{{1,10}})\] "
            r"(?P<brackets>(?:\[[^\]]{0,200}\] ?){1,8}): ?(?P<text>.*)",
        ),
        ("device_history", rf"\[(?P<stamp>{_DASHED})\] (?P<text>system exception code .*)"),
        ("sglang", rf"\[(?P<stamp>{_SPACED})(?P<process>(?: [A-Z]{{2,3}}\d{{1,4}}){{0,4}})\] (?P<text>.*)"),
    ),
    "0": (
        (
            "python",
            rf"(?P<stamp>{_SPACED}(?:,\d{{3}})?) - (?:(?P<module>[\w.]{{1,64}}) - )?"
            r"(?P<level>[A-Z]{4,8}) - (?P<text>.*)",
        ),
        (
            "motor",
            rf"(?P<stamp>{_SPACED})\s{{1,4}}\[(?P<level>[A-Z]{{4,8}})\]\[(?P<module>[^\]]{{1,64}})\]\[{_ORIGIN}\]"
            r"\[proc:(?P<process>[^\]]{1,64})\]\s{1,4}(?P<text>.*)",
        ),
        (
            "sysmonitor",
            r"(?P<stamp>\d{4}-\d\d-\d\dT[\d:.]{8,15}(?:Z|[+-]\d\d:\d\d))\|(?P<level>[a-z]{3,8})\|"
            r"(?P<process>[\w.-]{1,64})\[(?P<pid>\d{1,10})\]: (?P<text>.*)",
        ),
    ),
    "A": (
        (
            "engine",
            r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) (?P<stamp>\d\d-\d\d \d\d:\d\d:\d\d)(?:\.\d{1,6})? "
            r"\[?(?P<origin>[^\]\s]{1,200}:\d{1,7})\] ?(?P<text>.*)",
        ),
        (
            "cann",
            rf"(?P<module>E[A-Z0-9]\d{{4}}): (?:\[PID: (?P<pid>\d{{1,10}})\] )?"
            rf"(?:(?P<stamp>{_DASHED})\s{{0,4}})?(?P<text>.*)",
        ),
        (
            "glog",
            rf"(?P<level>[IWEF])(?P<stamp>\d{{4}} {_CLOCK})\s{{1,8}}(?P<pid>\d{{1,10}}) {_ORIGIN}\]\s{{0,8}}"
            r"(?P<text>.*)",
        ),
        ("uvicorn", r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL):\s{1,8}(?P<text>.*)"),
        (
            "exception",
            r"(?P<module>(?:[A-Za-z_]\w{0,63}\.){0,8}[A-Z]\w{0,63}(?:Error|Exception|Exit|Interrupt|Timeout)): "
            r"(?P<text>.*)",
        ),
    ),
    "*": (("warning", r"(?P<origin>[^\s:]{1,300}:\d{1,7}): (?P<module>\w{0,64}Warning): (?P<text>.*)"),),
}
_COMPILED = {
    kind: tuple((name, re.compile(pattern)) for name, pattern in patterns)
    for kind, patterns in _FORMATS.items()
}
_PLOG_HEAD = re.compile(
    rf"(?:\[status:\w{{1,32}}\] )?(?:\[{_ORIGIN}\] ?)?(?:\[(?P<tid>\d{{1,10}})\]|\(tid:\d{{1,10}}\) ?|\d{{1,10}} )?"
)
_KERNEL_IN_PLOG = re.compile(r"\[\d{1,10}\.\d{1,9}\] ?")
_ERROR_FORMATS = {"exception", "cann"}
_NESTED = {"plog", "torch_npu", "cann", "exception"}
"""Formats that other programs' lines are often found inside an engine's line."""


def parse_line(raw: str) -> Line | None:
    """Read one line in whatever format it is; None for a line of no known format, which may well be prose.

    The line must be `bounded`. A record inside an engine's line (its log quotes CANN's) is the one that counts.
    """
    wrapped = unwrap(raw)
    line = _parse(wrapped.text)
    if line is None:
        return None
    if line.format in ("engine", "glog") and (inner := _parse(line.text)) and inner.format in _NESTED:
        line = replace(
            inner,
            origin=inner.origin or line.origin,
            level=inner.level or line.level,
            stamp=inner.stamp or line.stamp,
        )
    return replace(
        line,
        process=line.process or wrapped.process,
        pid=line.pid if line.pid is not None else wrapped.pid,
        rank=line.rank if line.rank is not None else wrapped.rank,
        repeats=wrapped.repeats,
    )


def _parse(text: str) -> Line | None:
    first = text[:1]
    kind = "[" if first == "[" else "0" if first.isdecimal() else "A" if first.isalpha() else ""
    for name, pattern in _COMPILED.get(kind, ()):
        if found := pattern.match(text):
            return _line(name, found)
    if first in ("[", "<") and (kernel := parse_kernel(text)):
        return kernel
    if "Warning: " in text:
        for name, pattern in _COMPILED["*"]:
            if found := pattern.match(text):
                return _line(name, found)
    return None


def _line(name: str, found: re.Match[str]) -> Line:
    parts = found.groupdict()
    level: Level | None = level_named(parts.get("level"))
    origin, text, module = parts.get("origin"), parts["text"], parts.get("module")
    if name in _ERROR_FORMATS:
        level = "error"
    elif name == "warning":
        level = "warning"
    elif name == "mindie":
        for inner in re.findall(r"\[([^\]]*)\]", parts["brackets"]):
            level = level_named(inner) if level_named(inner) and len(inner) > 1 else level
            origin = inner if re.fullmatch(r"[\w./-]+:\d+", inner) else origin
    elif name == "plog":
        head = _PLOG_HEAD.match(text)
        assert head is not None  # every part of it is optional
        origin, text = head["origin"], text[head.end() :]
        if module == "KERNEL" and (stamp := _KERNEL_IN_PLOG.match(text)):
            text = text[stamp.end() :]
        if text.startswith("[ascend] ") and (kernel := parse_kernel(text)):
            text, module, level = kernel.text, kernel.module or module, kernel.level or level
            origin = kernel.origin or origin
    return Line(
        name,
        text,
        level,
        parts.get("stamp"),
        module,
        _number(parts.get("pid")),
        (parts.get("process") or "").strip() or None,
        _number(parts.get("device")),
        _number(parts.get("rank")),
        origin,
    )


def _number(text: str | None) -> int | None:
    # torch_npu writes -1 for a device or rank it does not know.
    return int(text) if text is not None and not text.startswith("-") else None


_ADVICE = re.compile(r"(?:^|\s)(?P<what>Possible Cause|Solution): {0,4}(?P<text>.{1,400})")


@dataclass(frozen=True, slots=True)
class Advice:
    """What CANN itself adds to one of its errors, on indented lines below it."""

    cause: str | None = None
    solution: str | None = None


def advice_in(raw: str) -> Advice | None:
    """The `Possible Cause:` or `Solution:` that a line holds, within whatever wraps it; None for other lines."""
    if "Possible Cause:" not in raw and "Solution:" not in raw:
        return None
    found = _ADVICE.search(raw)
    if found is None:
        return None
    text = found["text"].strip()
    return Advice(cause=text) if found["what"] == "Possible Cause" else Advice(solution=text)


def continues(raw: str) -> bool:
    """Whether a line belongs to the record before it: indented, blank, or a frame of a trace."""
    text = unwrap(raw).text
    return (
        not text.strip()
        or text[0] in " \t"
        or text.startswith(("Traceback (most recent", "The above exception"))
    )
