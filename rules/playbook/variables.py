"""`${name}` in conditions and texts: a value goes in as a value, whatever it holds, and cannot become syntax."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

MAX_VALUE = 1000
"""Characters of one value; a label of an alert is far shorter."""
_NAME = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,3})?", re.ASCII)
_RANGE = re.compile(r"\d{1,9}(?:ms|[smhdwy])", re.ASCII)
_META = re.compile(r"[\\.+*?()|\[\]{}^$]")

Place = Literal["text", "pattern", "number", "range"]


class VariableError(Exception):
    """A variable is not known, or its value does not fit where it stands."""


@dataclass(frozen=True, slots=True)
class _Slot:
    name: str
    place: Place
    quote: str = ""


class Template:
    """A condition with its variables. Raises `VariableError` for a `$` that begins none, or one in a bad place."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._parts = _split(text)

    @property
    def names(self) -> frozenset[str]:
        """The variables that it needs."""
        return frozenset(part.name for part in self._parts if isinstance(part, _Slot))

    def fill(self, values: Mapping[str, str]) -> str:
        """Put the values in. Raises `VariableError`."""
        return "".join(part if isinstance(part, str) else _put(part, values) for part in self._parts)

    def sample(self) -> str:
        """The condition with a stand-in for every variable, to see whether it can be parsed."""
        stand_ins: dict[Place, str] = {"text": "x", "pattern": "x", "number": "(1)", "range": "5m"}
        return "".join(part if isinstance(part, str) else stand_ins[part.place] for part in self._parts)


def _split(text: str) -> list[str | _Slot]:
    parts: list[str | _Slot] = []
    begun, position, quote, pattern = 0, 0, "", False
    while position < len(text):
        char = text[position]
        if char == "$" and (found := _NAME.match(text, position)):
            if quote == "`":
                raise VariableError(f"{found[0]} stands between backticks: use double quotes")
            parts += [text[begun:position], _Slot(found[1], _place(text[:position], quote, pattern), quote)]
            begun = position = found.end()
            continue
        if char == "$" and text.startswith("${", position):
            raise VariableError(f"{text[position : position + 20]!r} is no variable: write ${{name}}")
        if quote:
            if char == "\\" and quote != "`":
                position += 1
            elif char == quote:
                quote = ""
        elif char in "\"'`":
            quote, pattern = char, text[:position].rstrip().endswith(("=~", "!~"))
        elif char == "#":
            raise VariableError("a comment (#) has no place in a condition: say it in YAML")
        position += 1
    return [*parts, text[begun:]]


def _place(before: str, quote: str, pattern: bool) -> Place:
    if quote:
        return "pattern" if pattern else "text"
    bare = before.rstrip()
    return "range" if bare.endswith(("[", ":")) or re.search(r"\boffset\s*-?$", bare) else "number"


def _put(slot: _Slot, values: Mapping[str, str]) -> str:
    value = _value(slot.name, values)
    if slot.place == "number":
        if not _NUMBER.fullmatch(value):
            raise VariableError(f"${{{slot.name}}} stands for a number, and its value is {value[:60]!r}")
        return f"({value})"  # so that it joins nothing before or after it
    if slot.place == "range":
        if not _RANGE.fullmatch(value):
            raise VariableError(
                f"${{{slot.name}}} stands for a duration (5m), and its value is {value[:60]!r}"
            )
        return value
    if slot.place == "pattern":
        value = _META.sub(lambda found: "\\" + found[0], value)
    return "".join(_escaped(char, slot.quote) for char in value)


def _escaped(char: str, quote: str) -> str:
    if char in ("\\", quote):
        return "\\" + char
    if " " <= char <= "~":
        return char
    point = ord(char)
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"


def _value(name: str, values: Mapping[str, str]) -> str:
    value = values.get(name)
    if value is None:
        raise VariableError(f"the alert has no label {name}, and the playbook no such variable")
    if len(value) > MAX_VALUE:
        raise VariableError(f"the value of {name} has {len(value)} characters: at most {MAX_VALUE}")
    if any("\ud800" <= char <= "\udfff" for char in value):
        raise VariableError(f"the value of {name} is no Unicode text")
    return value


def names_in(text: str) -> frozenset[str]:
    """The variables of a text for people or of an argument. Raises `VariableError` for a `${` that begins none."""
    if "${" in _NAME.sub("", text):
        raise VariableError(f"{text[:60]!r} holds a ${{ that begins no variable: write ${{name}}")
    return frozenset(_NAME.findall(text))


def said(text: str, values: Mapping[str, str]) -> str:
    """A text for people with its variables, on one line: control characters become spaces. Raises `VariableError`."""
    filled = _NAME.sub(lambda found: _value(found[1], values), text)
    return " ".join("".join(char if char.isprintable() else " " for char in filled).split())
