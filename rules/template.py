"""Text of a rule with `{{ $labels.x }}` and `{{ $value }}` in it, and nothing else of Prometheus' templates.

The same text has to say the same here and in a Prometheus that is given the exported rule.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

_ACTION = re.compile(r"\{\{\s*\$(?:(?P<value>value)|labels\.(?P<label>(?!__)[a-zA-Z_][a-zA-Z0-9_]*))\s*\}\}")
LEAST_EXPONENT, LARGEST_EXPONENT = -4, 5
"""Outside of these Go writes a number with an exponent."""


class TemplateError(ValueError):
    """The text holds what is no plain substitution; the text of the error says what and how to write it."""


@dataclass(frozen=True, slots=True)
class Template:
    """Plain texts, and between them names of labels; None stands for the value."""

    text: str
    pieces: tuple[str, ...]
    holes: tuple[str | None, ...]

    @property
    def uses_value(self) -> bool:
        """Whether the text changes with the value."""
        return None in self.holes

    def render(self, labels: Mapping[str, str], value: float) -> str:
        """Fill in the labels (without the metric's name) and the value; a label that is not there is empty."""
        made = [self.pieces[0]]
        for hole, piece in zip(self.holes, self.pieces[1:], strict=True):
            made.append(number(value) if hole is None else labels.get(hole, ""))
            made.append(piece)
        return "".join(made)


def parse(text: str) -> Template:
    """Read a text. Raises `TemplateError` for any other action in it."""
    pieces, holes, begun = [], [], 0
    while (place := text.find("{{", begun)) >= 0:
        action = _ACTION.match(text, place)
        if action is None:
            given = text[place : place + 40]
            raise TemplateError(
                f"{given!r} is not understood: only {{{{ $labels.NAME }}}} and {{{{ $value }}}} are filled in"
            )
        pieces.append(text[begun:place])
        holes.append(action["label"])
        begun = action.end()
    pieces.append(text[begun:])
    return Template(text, tuple(pieces), tuple(holes))


def number(value: float) -> str:
    """A number as Go prints it: the shortest digits that tell it apart, an exponent of at least two digits."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    mantissa, _, exponent = f"{value!r}".partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, part = mantissa.removeprefix("-").partition(".")
    part = "" if part == "0" else part
    point = len(whole) + int(exponent or 0)
    digits = (whole + part).lstrip("0")
    point -= len(whole + part) - len(digits)
    digits = digits.rstrip("0")
    if not digits:
        return f"{sign}0"
    if LEAST_EXPONENT <= point - 1 <= LARGEST_EXPONENT:
        if point <= 0:
            return f"{sign}0.{'0' * -point}{digits}"
        if len(digits) <= point:
            return f"{sign}{digits.ljust(point, '0')}"
        return f"{sign}{digits[:point]}.{digits[point:]}"
    tail = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{tail}e{point - 1:+03d}"
