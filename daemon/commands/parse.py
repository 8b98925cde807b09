"""`trimtab parse KIND FILE`: a parser over a pasted output, and what it makes of it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from collectors.metrics_paste import parse_metrics_paste
from collectors.npu_smi.paste import parse_paste, parse_topology_paste
from daemon.commands.options import JsonOption
from daemon.commands.output import print_json, print_table, remark
from daemon.errors import BAD, USAGE, UserError

MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Kind:
    """What can be pasted, and the pure function that makes a JSON-ready result with `notes` and `error` of it."""

    what: str
    parse: Callable[[str], Mapping[str, object]]
    largest_bytes: int = 4 * MEBIBYTE


KINDS: dict[str, Kind] = {
    "npu-smi": Kind("anything that npu-smi info prints", parse_paste),
    "topo": Kind("the matrix of npu-smi info -t topo", parse_topology_paste),
    "metrics": Kind("the /metrics page of a vLLM server", parse_metrics_paste, 16 * MEBIBYTE),
}
"""The kinds by name."""


def parse(
    kind: Annotated[
        str,
        typer.Argument(metavar="KIND", help="; ".join(f"{name}: {one.what}" for name, one in KINDS.items())),
    ],
    file: Annotated[str, typer.Argument(metavar="FILE", help="What was pasted; - reads stdin.")],
    as_json: JsonOption = False,
) -> None:
    """Print what is made of a pasted output; code 1 if nothing of it can be read."""
    chosen = KINDS.get(kind)
    if chosen is None:
        raise UserError(f"no kind {kind!r}: there are {', '.join(KINDS)}", USAGE)
    result = chosen.parse(_text(file, chosen.largest_bytes))
    if as_json:
        print_json(result)
    else:
        _show(result)
        for note in _list(result.get("notes")):
            remark(str(note))
        if result.get("error") is not None:
            remark(str(result["error"]))
    if result.get("error") is not None:
        raise typer.Exit(BAD)


def _text(file: str, largest: int) -> str:
    """The pasted text: bytes that are none are shown as such and left to the parser."""
    try:
        if file == "-":
            content = sys.stdin.buffer.read(largest + 1)
        else:
            with Path(file).open("rb") as opened:
                content = opened.read(largest + 1)
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror}", USAGE) from error
    if len(content) > largest:
        raise UserError(f"{file} is over {largest // MEBIBYTE} MiB: cut out the part in question", USAGE)
    encoding = "utf-16" if content.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    return content.decode(encoding, errors="backslashreplace")


def _show(result: Mapping[str, object]) -> None:
    """Plain values first, then a table for each list of rows; columns of which nothing is known are left out."""
    plain = {
        name: value
        for name, value in result.items()
        if isinstance(value, str | int | float) and name != "error"
    }
    if plain:
        print("  ".join(f"{name} {value}" for name, value in plain.items()))
    for name, rows in result.items():
        tabular = [row for row in _list(rows) if isinstance(row, Mapping)]
        columns = [
            str(column)
            for column in dict.fromkeys(key for row in tabular for key in row)
            if any(row.get(column) is not None for row in tabular)
        ]
        if columns:
            print(f"\n{name}")
            print_table(columns, ([_cell(row.get(column)) for column in columns] for row in tabular), "")


def _cell(value: object) -> object:
    if isinstance(value, Mapping) and "bounds" in value:
        return f"{value['count']:.6g} observed, sum {value['sum']:.6g}"
    return " ".join(str(one) for one in value) if isinstance(value, list) else value


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
