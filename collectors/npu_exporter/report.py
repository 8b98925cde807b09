"""A pasted page of npu-exporter's as plain values: what was read, and every name that is not known."""

from __future__ import annotations

import re
from collections import Counter

from collectors.lines import numbered
from collectors.metrics import METRICS
from collectors.notes import bounded
from collectors.npu_exporter.names import ERROR_CODES, MACHINE, PLACEHOLDERS, ROWS
from collectors.npu_exporter.page import NpuExporterPage
from collectors.prometheus_text import PageError

MAX_NOTES = 20
_PAGE = NpuExporterPage(ROWS, complete=True)
_KNOWN = {name for row in ROWS for name, _ in row.families()} | {*MACHINE, *PLACEHOLDERS} | ERROR_CODES
_OTHERS = ("#", "go_", "process_", "promhttp_")
"""What stands on the page of any exporter."""

_SERIES = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]*)(?:\{.*\})?\s+\S+(?:\s+(\d{1,18}))?\s*")


def report(text: str) -> dict[str, object]:
    """Readings in base units for JSON; ages are taken from the newest stamp on the page, since a paste is old."""
    unknown: Counter[str] = Counter()
    newest: float | None = None
    told: list[str] = []
    for _, line in numbered(text, told):
        if line.startswith(_OTHERS):
            continue
        match = _SERIES.fullmatch(line)
        if match is None:
            unknown[f"{line[:120]!r} is no series"] += 1
            continue
        if match[1] not in _KNOWN:
            unknown[f"{match[1]} is not known"] += 1
        if match[2]:
            newest = max(newest or 0.0, int(match[2]) / 1000.0)
    told += [f"{what} ({count} lines)" if count > 1 else what for what, count in unknown.items()]
    try:
        reading = _PAGE.read(text if text.endswith("\n") else text + "\n", newest or 0.0)
    except PageError as failure:
        return {"time": newest, "readings": [], "notes": bounded(told, MAX_NOTES), "error": str(failure)}
    readings = [
        {
            "name": sample.name,
            "unit": METRICS[sample.name].unit,
            "labels": dict(sample.labels),
            "value": sample.value,
        }
        for sample in reading.samples
    ]
    return {
        "time": newest,
        "readings": readings,
        "notes": bounded([*reading.notes, *told], MAX_NOTES),
        "error": None,
    }
