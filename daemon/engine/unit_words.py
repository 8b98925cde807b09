"""Words of a command line as systemd's unit files write them (systemd.service(5), systemd.syntax(7))."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

PLAIN = re.compile(r"[A-Za-z0-9_/.,:=@+-]+", re.ASCII)
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
PREFIXES = "@-:+!|"
"""With one of these before the program systemd starts it otherwise."""


def exec_start(argv: Sequence[str], variables: Collection[str] = ()) -> str:
    """The line for `ExecStart=`; words among `variables` keep their `$`, in all others it stands for itself.

    Raises `ValueError` for words that no unit can hold.
    """
    if not argv or not argv[0] or argv[0][0] in PREFIXES:
        raise ValueError(f"{argv[0] if argv else ''!r} cannot be a unit's program")
    return " ".join(_quoted(word if word in variables else word.replace("$", "$$")) for word in argv)


def environment(environ: Mapping[str, str]) -> list[str]:
    """The values of `Environment=` lines, one for each variable; raises `ValueError` for a name that is none."""
    for name in environ:
        if not NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of an environment variable")
    return [_quoted(f"{name}={value}", always=True) for name, value in sorted(environ.items())]


def _quoted(word: str, *, always: bool = False) -> str:
    if "\0" in word:
        raise ValueError("a word with a NUL character cannot be given to a process")
    # A word that is only plain letters is not quoted, for the reader's sake.
    if PLAIN.fullmatch(word) and not always:
        return word
    return '"' + "".join(_escaped(letter) for letter in word) + '"'


def _escaped(letter: str) -> str:
    if letter in '\\"':
        return "\\" + letter
    if letter == "%":
        return "%%"
    if letter < " " or letter == "\x7f":
        return f"\\x{ord(letter):02x}"
    return letter


def bus_path(unit: str) -> str:
    """The object of a unit on the bus."""
    escaped = ""
    for position, letter in enumerate(unit.encode().decode("latin-1")):
        kept = letter.isascii() and (letter.isalpha() or (letter.isdigit() and position > 0))
        escaped += letter if kept else f"_{ord(letter):02x}"
    return f"/org/freedesktop/systemd1/unit/{escaped}"
