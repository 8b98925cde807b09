"""A launch command in the journal: without the gate of its start, and without secrets.

A secret (`--api-key`, `NAME_KEY=value`, a JSON value under such a key) is replaced by a mark and filled in again
from the command that the hand still knows.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from change.server import LaunchCommand, ServerError

GATE_VARIABLE = "TRIMTAB_GATE"
GATE_UNTIL_VARIABLE = "TRIMTAB_GATE_UNTIL"
CLOSED_START_SECONDS = 2 * 3600.0
"""How long a closed start holds for: longer than any load, so that the gate is never open before the probe.

Where the variables become a part of a container or a pod template, a start by somebody else after that begins open.
"""
MARK = "<secret>"
_SECRET_FLAG = re.compile(r"^--(?:[a-z0-9]+[-_.])*(?:api[-_]key|token|password|secret)$", re.IGNORECASE)
_ABBREVIATED = ("--api-key", "--admin-api-key", "--hf-token")
"""Flags whose beginning alone will do for argparse."""
_LEAST_ABBREVIATION = 5
_SECRET_VARIABLE = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD)$", re.IGNORECASE)
_INSIDE_A_WORD = (
    re.compile(
        r'("(?:[^"\\]|\\.)*(?:key|token|password|secret)"\s*:\s*")((?:[^"\\]|\\.)+)(?=")', re.IGNORECASE
    ),
    re.compile(r"(--(?:[a-z0-9]+[-_.])*(?:api[-_]key|token|password|secret)[= ]+)([^\s;]+)", re.IGNORECASE),
    re.compile(r"(\b\w*(?:KEY|TOKEN|SECRET|PASSWORD)=)([^\s;]+)"),
)
"""A JSON value by its key; a flag and a variable in a word that is a script. What is there to hide comes second."""
Swap = Callable[[str, list[str]], list[str]]
"""What stands in for the values of a place; the place is a flag, a variable or a key."""


def closed(command: LaunchCommand, now: float) -> LaunchCommand:
    """The same command with a gate that starts closed; `now` is in Unix seconds."""
    until = f"{now + CLOSED_START_SECONDS:.0f}"
    return LaunchCommand(
        command.argv, {**command.environ, GATE_VARIABLE: "closed", GATE_UNTIL_VARIABLE: until}
    )


def plain(command: LaunchCommand) -> LaunchCommand:
    """The same command without the gate of its start: what a start by somebody else is to use."""
    gate = (GATE_VARIABLE, GATE_UNTIL_VARIABLE)
    return LaunchCommand(tuple(command.argv), {k: v for k, v in command.environ.items() if k not in gate})


def same(one: LaunchCommand, other: LaunchCommand) -> bool:
    """Whether two commands start the same engine."""
    a, b = plain(one), plain(other)
    return a.argv == b.argv and dict(a.environ) == dict(b.environ)


def written(command: LaunchCommand) -> dict[str, Any]:
    """The command as the journal keeps it."""
    environ = plain(command).environ
    return {
        "argv": _swapped(command.argv, lambda place, values: [MARK]),
        "environ": {k: MARK if _SECRET_VARIABLE.search(k) else v for k, v in environ.items()},
    }


def read(kept: Mapping[str, Any], known: LaunchCommand) -> LaunchCommand:
    """The command out of the journal, its secrets taken from one that is still known.

    Raises `ServerError` if a secret is not known any more.
    """
    secrets: dict[str, list[list[str]]] = defaultdict(list)

    def note(place: str, values: list[str]) -> list[str]:
        secrets[place].append(values)
        return values

    def fill(place: str, values: list[str]) -> list[str]:
        if values != [MARK]:
            return values
        return secrets[place].pop(0) if secrets[place] else _missing(place)

    _swapped(known.argv, note)
    argv = _swapped([str(word) for word in kept["argv"]], fill)
    environ = {str(k): str(v) for k, v in kept["environ"].items()}
    for name, value in environ.items():
        if value == MARK:
            environ[name] = known.environ.get(name) or _missing(name)[0]
    return LaunchCommand(tuple(argv), environ)


def _missing(name: str) -> list[str]:
    raise ServerError(
        f"the value of {name} is a secret, which the journal does not keep, and the engine's present command has none: "
        "start the engine once by hand"
    )


def _swapped(argv: Sequence[str], swap: Swap) -> list[str]:
    """The words with other values for secrets; all that follow one secret flag are one place, each time it is given."""
    found: list[str] = []
    flag = ""
    group: list[str] | None = None
    for word in argv:
        name, equals, value = word.partition("=")
        if group is not None and not word.startswith("-"):
            group.append(word)
            continue
        if group:
            found += swap(flag, group)
        group = None
        if word.startswith("-"):
            flag = name
            if _is_secret(name):
                if equals:
                    found.append(f"{name}={swap(name, [value])[0]}")
                else:
                    found.append(word)
                    group = []
                continue
        elif equals and name.isidentifier() and _SECRET_VARIABLE.search(name):
            found.append(f"{name}={swap(name, [value])[0]}")
            continue
        found.append(_inside(word, flag, swap))
    return [*found, *swap(flag, group)] if group else found


def _is_secret(flag: str) -> bool:
    if _SECRET_FLAG.match(flag):
        return True
    spelled = flag.lower().replace("_", "-")
    return len(spelled) >= _LEAST_ABBREVIATION and any(one.startswith(spelled) for one in _ABBREVIATED)


def _inside(word: str, flag: str, swap: Swap) -> str:
    for pattern in _INSIDE_A_WORD:
        word = pattern.sub(
            lambda found: found[1] + swap(f"{found[1].strip()} of {flag or 'a word'}", [found[2]])[0], word
        )
    return word
