"""What commands print: JSON for programs, plain tables for people, errors and remarks on stderr."""

from __future__ import annotations

import io
import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

UNKNOWN = "-"
ENDLESS = 10_000


def print_json(value: Any) -> None:
    """Print one JSON document; numbers that JSON does not know become null."""
    print(json.dumps(_finite(value), indent=2, ensure_ascii=False, allow_nan=False))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], empty: str) -> None:
    """Print rows under their headings, or the sentence `empty` if there are none."""
    cells = [[text(cell) for cell in row] for row in rows]
    if not cells:
        print(empty)
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in cells:
        # Text and not a string: what an engine or a file calls itself is no markup.
        table.add_row(*(Text(cell) for cell in row))
    if sys.stdout.isatty():
        Console(highlight=False).print(table)
        return
    # Where no terminal is, rows stay whole, so that grep and cut work.
    page = io.StringIO()
    Console(file=page, highlight=False, width=ENDLESS).print(table)
    for line in page.getvalue().splitlines():
        print(line.rstrip())


def remark(text: str) -> None:
    """Say something beside the result."""
    print(f"trimtab: {text}", file=sys.stderr)


def text(value: Any) -> str:
    """A cell: unknown is a dash, numbers are short, values of knobs are `name=value`."""
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        return " ".join(f"{key}={text(inner)}" for key, inner in value.items()) or UNKNOWN
    return str(value)


def when(time: float | None) -> str:
    """A Unix time in the host's time zone."""
    return (
        UNKNOWN if time is None else datetime.fromtimestamp(time).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    )


def percent(ratio: float | None) -> str:
    """A ratio - 1 as people read it: `+12.3%`."""
    return UNKNOWN if ratio is None or not math.isfinite(ratio) else f"{ratio:+.1%}"


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_finite(inner) for inner in value]
    return value
