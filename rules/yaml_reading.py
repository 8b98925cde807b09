"""Read one YAML file into plain values, remembering the line of every key."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import yaml

Path = tuple[str | int, ...]

MAX_CHARACTERS = 512 * 1024
"""Far above any real file; parsing takes some seconds for each MB, in which nothing else would be done."""
MAX_KEYS = 10_000
"""Far above any real configuration; nested aliases could grow without end."""


class YamlMistake(Exception):
    """The text is no YAML that can be used; `line` counts from 1."""

    def __init__(self, message: str, line: int | None) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True, slots=True)
class Document:
    """A YAML document: its plain values, and the line (from 1) of every key and list item by path."""

    values: Any
    lines: dict[Path, int]

    def line(self, path: Path) -> int | None:
        """The line of `path`, or of the nearest parent that is written down."""
        for length in range(len(path), 0, -1):
            found = self.lines.get(path[:length])
            if found is not None:
                return found
        return None


class _Loader(yaml.SafeLoader):
    """YAML 1.2 scalars: `22:00` is text (in 1.1 it is 1320), and so are `on`, `off`, `yes`, `no`, dates."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


for _tag, _pattern, _first in (
    ("tag:yaml.org,2002:null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("tag:yaml.org,2002:bool", r"^(?:true|True|TRUE|false|False|FALSE)$", list("tTfF")),
    ("tag:yaml.org,2002:int", r"^[-+]?[0-9]+$", list("-+0123456789")),
    (
        "tag:yaml.org,2002:float",
        r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$",
        list("-+0123456789."),
    ),
):
    _Loader.add_implicit_resolver(_tag, re.compile(_pattern), _first)


def _construct_int(loader: _Loader, node: yaml.ScalarNode) -> int:
    # YAML 1.1 reads 010 as eight; YAML 1.2 and people read ten.
    return int(str(loader.construct_scalar(node)))


def _construct_float(loader: _Loader, node: yaml.ScalarNode) -> float:
    text = str(loader.construct_scalar(node)).lower().replace(".inf", "inf").replace(".nan", "nan")
    return float(text)


_Loader.add_constructor("tag:yaml.org,2002:int", _construct_int)
_Loader.add_constructor("tag:yaml.org,2002:float", _construct_float)


def parse(text: str) -> Document:
    """Parse YAML text; an empty document gives None as values.

    Raises `YamlMistake` for bad syntax, a key written twice or not text, an alias that holds itself, too much text.
    """
    if len(text) > MAX_CHARACTERS:
        raise YamlMistake(f"{len(text)} characters: at most {MAX_CHARACTERS} are read", None)
    loader: _Loader | None = None
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return Document(None, {})
        lines: dict[Path, int] = {}
        _walk(node, (), lines, frozenset())
        return Document(loader.construct_document(node), lines)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise YamlMistake(
            ", ".join(filter(None, (error.context, error.problem))), mark.line + 1 if mark else None
        ) from error
    except yaml.YAMLError as error:
        raise YamlMistake(" ".join(str(error).split()), None) from error
    except (ValueError, RecursionError) as error:
        raise YamlMistake(f"a value cannot be read: {error}", None) from error
    finally:
        if loader is not None:
            loader.dispose()


def _walk(node: yaml.Node, path: Path, lines: dict[Path, int], above: frozenset[int]) -> None:
    if id(node) in above:
        raise YamlMistake("an alias that holds itself", node.start_mark.line + 1)
    if len(lines) > MAX_KEYS:
        raise YamlMistake(f"more than {MAX_KEYS} keys (aliases count each time)", node.start_mark.line + 1)
    inside = above | {id(node)}
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise YamlMistake("a key must be plain text", line)
            if key.tag != "tag:yaml.org,2002:str":
                raise YamlMistake(
                    f"the key {key.value or 'that is empty'} is no text: write it in quotes", line
                )
            if key.value == "<<":
                raise YamlMistake("merge keys (<<) are not supported: write the keys out", line)
            place = (*path, key.value)
            if place in lines:
                raise YamlMistake(f"{dotted(place)} is written twice (first at line {lines[place]})", line)
            lines[place] = line
            _walk(value, place, lines, inside)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            lines[(*path, index)] = value.start_mark.line + 1
            _walk(value, (*path, index), lines, inside)


def dotted(path: Path) -> str:
    """A path as people write it: `tune.quiet_hours[0]`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text
