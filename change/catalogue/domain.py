"""What values a knob may have: numbers, choices, switches, words; told from text and checked."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass

from change.server import Setting

_SUFFIXED = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT])")
_SUFFIXES = {letter: 1000**power for power, letter in enumerate("kmgt", 1)} | {
    letter: 1024**power for power, letter in enumerate("KMGT", 1)
}


@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbers between `least` and `most`, hard bounds whatever the engine.

    `low` and `high` bound the search, or `tried` lists the values it tries; none of them: it is not searched. With
    `zero_is_off`, 0 means no cap (or no such thing) and stands outside the bounds.
    """

    least: float = 0
    most: float = math.inf
    low: float | None = None
    high: float | None = None
    tried: tuple[float, ...] = ()
    log: bool = False
    integer: bool = True
    zero_is_off: bool = False

    @property
    def kind(self) -> str:
        """`int` or `float`."""
        return "int" if self.integer else "float"


@dataclass(frozen=True, slots=True)
class Choices:
    """One of some words; others are left to the engine if `others` (it knows more of them by version and platform)."""

    words: tuple[str, ...]
    others: bool = False
    kind: str = "choice"


@dataclass(frozen=True, slots=True)
class Switch:
    """On or off."""

    kind: str = "bool"


@dataclass(frozen=True, slots=True)
class Words:
    """Free text that is never searched; with `several`, words in one string with a blank between each two."""

    several: bool = False
    kind: str = "text"


@dataclass(frozen=True, slots=True)
class Json:
    """The text of a JSON object or list, never searched."""

    kind: str = "json"


Domain = Numbers | Choices | Switch | Words | Json


def complaint(domain: Domain, value: Setting, unit: str) -> str | None:
    """What is wrong with a value, to be read after the knob's name; None if nothing is."""
    match domain:
        case Numbers():
            return _of_number(domain, value, unit)
        case Switch() if not isinstance(value, bool):
            return f"is {value!r}: expected true or false"
        case Choices() if not isinstance(value, str) or (value not in domain.words and not domain.others):
            return f"is {value!r}: expected one of {', '.join(domain.words)}"
        case Words() if not isinstance(value, str) or not value.strip() or not value.isprintable():
            return f"is {value!r}: expected words"
        case Json() if not isinstance(value, str) or not _is_json(value):
            return f"is {value!r}: expected the text of a JSON object or list"
    return None


def _of_number(domain: Numbers, value: Setting, unit: str) -> str | None:
    if isinstance(value, bool | str) or not math.isfinite(value):
        return f"is {value!r}: expected a number{_of(unit)}"
    if domain.integer and value != int(value):
        return f"is {value:g}: expected a whole number{_of(unit)}"
    if domain.zero_is_off and value == 0:
        return None
    if value < domain.least:
        return f"is {value:g}: expected at least {domain.least:g}"
    if value > domain.most:
        return f"is {value:g}: expected at most {domain.most:g}"
    return None


def told(domain: Domain, text: str) -> Setting | None:
    """The value that a flag's, a label's or a log line's text stands for; None if it is none of this domain."""
    text = text.strip()
    match domain:
        case Numbers():
            return _number(domain, text)
        case Switch():
            return {"true": True, "1": True, "false": False, "0": False}.get(text.lower())
        case Json():
            return text if _is_json(text) else None
        case Words(several=True):
            return " ".join(re.findall(r"[^\s,\[\]()'\"]+", text)) or None
        case Choices() | Words():
            return text or None


def written(domain: Domain, value: Setting) -> str:
    """A value as a flag or an environment variable takes it."""
    match domain:
        case Numbers(integer=True) if not isinstance(value, str):
            return str(int(value))
        case Switch():
            return "true" if value else "false"
    return str(value)


def _number(domain: Numbers, text: str) -> Setting | None:
    # vLLM and SGLang take "16k" for 16,000 and "16K" for 16,384; fractions only of the decimal ones.
    suffixed = _SUFFIXED.fullmatch(text)
    if suffixed is not None:
        number = float(suffixed[1]) * _SUFFIXES[suffixed[2]]
    else:
        try:
            number = float(text)
        except ValueError:
            return None
    if not math.isfinite(number) or (domain.integer and number != int(number)):
        return None
    return int(number) if domain.integer else number


def _is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict | list)
    except ValueError:
        return False


def _of(unit: str) -> str:
    return f" of {unit}" if unit else ""
