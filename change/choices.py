"""Knobs whose value is one of a few texts: the mind deals in numbers, people and the host lane in the texts.

The number is the place in the knob's list, 0 for what was found when the list was made.
"""

from __future__ import annotations

from collections.abc import Mapping

from change.engine import Values

Options = Mapping[str, tuple[str, ...]]
"""Knob name to its texts; a knob that is not named here is a plain number."""

UNLISTED = -1.0
"""Stands for a text that is not in the knob's list: something else than what was asked for is in force."""


def number(text: str | None, options: tuple[str, ...]) -> float:
    """The place of a text in its knob's list, `UNLISTED` if it has none or is unknown."""
    return float(options.index(text)) if text in options else UNLISTED


def words(name: str, value: float, options: Options) -> str:
    """One value as a person reads it."""
    texts = options.get(name)
    if texts is None:
        return f"{value:g}"
    place = int(value)
    return texts[place] if 0 <= place < len(texts) else "something else"


def worded(values: Values, options: Options) -> dict[str, float | str]:
    """Values as they are reported and stored: numbers, and the texts of knobs that have texts."""
    return {name: words(name, value, options) if name in options else value for name, value in values.items()}


def numbered(values: Mapping[str, float | str], options: Options) -> dict[str, float] | None:
    """Stored values as numbers for today's lists; None if a text is not among them any more."""
    found: dict[str, float] = {}
    for name, value in values.items():
        if isinstance(value, str):
            value = number(value, options.get(name, ()))
            if value == UNLISTED:
                return None
        found[name] = value
    return found


def plain_part(values: Mapping[str, float | str]) -> dict[str, float]:
    """The knobs of stored values that are plain numbers."""
    return {name: value for name, value in values.items() if not isinstance(value, str)}
