"""vllm-ascend's `--additional-config` keys, one knob each, named `additional_config.KEY`, from a table.

The table's keys, defaults and versions were read from the sources of 0.7.3, 0.9.1, 0.11.0, 0.13.0, 0.18.0, 0.23.0,
0.25.1rc1, 0.26.0rc1 and the development branch after it (written 0.27.0): `since` and `until` are the first of these
with the key and the first without it again. A key that went and came back has several of both.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Literal, cast

from change.catalogue.domain import Choices, Domain, Json, Numbers, Switch, Words
from change.catalogue.knob import JsonKey, Knob

FLAG = "--additional-config"
_NONE = "-"


def _read(text: str) -> tuple[Knob, ...]:
    rows = (line.split("\t") for line in text.splitlines() if line and not line.startswith("#"))
    return tuple(_knob(*row) for row in rows)


def _knob(
    path: str,
    domain: str,
    unit: str,
    search: str,
    accuracy: str,
    since: str,
    until: str,
    moved: str,
    defaults: str,
    help: str,
) -> Knob:
    ways = [
        (path, start, None if end == _NONE else end)
        for start, end in zip(since.split(","), until.split(","), strict=True)
    ]
    if moved != _NONE:
        target, _, at = moved.partition("@")
        first, start, end = ways.pop()
        ways += [(first, start, at), (target, at, end)]
    return Knob(
        name=f"additional_config.{path}",
        domain=_domain(domain),
        unit="" if unit == _NONE else unit,
        places=tuple(
            JsonKey(FLAG, tuple(way.split(".")), since=at, until=before) for way, at, before in ways
        ),
        platforms=frozenset({"ascend"}),
        search=cast(Literal["free", "by_name", "never"], search),
        accuracy_gate=accuracy == "gate",
        defaults=() if defaults == _NONE else tuple(_default(word) for word in defaults.split()),
        help=help,
    )


def _domain(text: str) -> Domain:
    kind, *rest = text.split()
    match kind:
        case "int":
            tried = tuple(float(value) for value in rest[2].split(",")) if len(rest) > 2 else ()
            return Numbers(least=float(rest[0]), most=float(rest[1]), tried=tried)
        case "choice":
            return Choices(tuple(rest[0].split(",")))
        case "bool":
            return Switch()
        case "json":
            return Json()
        case "text":
            return Words()
    raise ValueError(f"additional_config.tsv: no domain is called {kind!r}")


def _default(word: str) -> tuple[str, str]:
    since, _, value = word.partition(":")
    return since, value


KNOBS = _read(files("change.catalogue").joinpath("additional_config.tsv").read_text("utf-8"))
