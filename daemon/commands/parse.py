"""`trimtab parse KIND FILE`: a parser over a pasted output, and what it makes of it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from collectors.engines.paste import describe_page
from collectors.hccn import output as hccn
from collectors.host.pastes import PASTES
from collectors.logs.report import parsed_dmesg, parsed_logs
from collectors.npu_exporter import report as npu_exporter
from collectors.npu_smi.paste import parse_paste, parse_topology_paste
from collectors.profile.parsed import parsed as parsed_profiles
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
    "metrics": Kind("the /metrics page of an engine", describe_page, 16 * MEBIBYTE),
    "npu-exporter": Kind("the /metrics page of npu-exporter", npu_exporter.report, 16 * MEBIBYTE),
    "hccn": Kind("what hccn_tool prints", hccn.report),
    "logs": Kind("lines of plog, device, engine or CANN logs", parsed_logs, 64 * MEBIBYTE),
    "dmesg": Kind("the kernel's messages", parsed_dmesg, 64 * MEBIBYTE),
    **{name: Kind(f"of the host: {name}", one, 64 * MEBIBYTE) for name, one in PASTES.items()},
}
"""The kinds of text by name."""
PROFILES = "msprof"
"""The one kind that is a file or folder and not a text."""
WHAT = {
    PROFILES: "a folder or file of msprof or torch_npu",
    **{name: kind.what for name, kind in KINDS.items()},
}


def parse(
    kind: Annotated[
        str,
        typer.Argument(metavar="KIND", help="; ".join(f"{name}: {what}" for name, what in WHAT.items())),
    ],
    file: Annotated[str, typer.Argument(metavar="PATH", help="What was pasted; - reads stdin.")],
    as_json: JsonOption = False,
) -> None:
    """Print what is made of a pasted output; code 1 if nothing of it can be read."""
    result = _parsed(kind, file)
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


def _parsed(kind: str, file: str) -> Mapping[str, object]:
    if kind == PROFILES:
        if not Path(file).exists():
            raise UserError(f"{file} does not exist: name a folder or a file of a profile", USAGE)
        return parsed_profiles(Path(file))
    chosen = KINDS.get(kind)
    if chosen is None:
        raise UserError(f"no kind {kind!r}: there are {', '.join(WHAT)}", USAGE)
    return chosen.parse(_text(file, chosen.largest_bytes))


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
        name: _cell(value)
        for name, value in result.items()
        if name not in ("error", "notes") and _is_plain(value)
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


def _is_plain(value: object) -> bool:
    """One value, or a list of such."""
    values = value or [None] if isinstance(value, list) else [value]
    return all(isinstance(one, str | int | float) for one in values)


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
