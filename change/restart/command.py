"""A launch command in the journal: without the gate of its start, and without secrets.

A secret (`--api-key`) is replaced by a mark and filled in again from the command that the hand still knows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from change.server import LaunchCommand, ServerError

GATE_VARIABLE = "TRIMTAB_GATE"
GATE_UNTIL_VARIABLE = "TRIMTAB_GATE_UNTIL"
CLOSED_START_SECONDS = 2 * 3600.0
"""How long a closed start holds for: longer than any load, so that the gate is never open before the probe.

Where the variables become a part of a container or a pod template, a start by somebody else after that begins open.
"""
MARK = "<secret>"
_SECRET_FLAG = re.compile(r"^--(?:[a-z0-9]+[-_])*(?:api[-_]key|token|password|secret)$", re.IGNORECASE)
_SECRET_VARIABLE = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD)$", re.IGNORECASE)


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
        "argv": _marked(command.argv),
        "environ": {k: MARK if _SECRET_VARIABLE.search(k) else v for k, v in environ.items()},
    }


def read(kept: Mapping[str, Any], known: LaunchCommand) -> LaunchCommand:
    """The command out of the journal, its secrets taken from one that is still known.

    Raises `ServerError` if a secret is not known any more.
    """
    argv = tuple(str(word) for word in kept["argv"])
    environ = {str(k): str(v) for k, v in kept["environ"].items()}
    secrets = _secrets(known.argv)
    filled: list[str] = []
    flag = ""
    for word in argv:
        if word == MARK:
            filled += secrets.get(flag) or _missing(flag)
            continue
        if word.endswith("=" + MARK):
            flag = word.partition("=")[0]
            filled.append(f"{flag}={(secrets.get(flag) or _missing(flag))[0]}")
            continue
        if word.startswith("-"):
            flag = word
        filled.append(word)
    for name, value in environ.items():
        if value == MARK:
            environ[name] = known.environ.get(name) or _missing(name)[0]
    return LaunchCommand(tuple(filled), environ)


def _missing(name: str) -> list[str]:
    raise ServerError(
        f"the value of {name} is a secret, which the journal does not keep, and the engine's present command has none: "
        "start the engine once by hand"
    )


def _marked(argv: tuple[str, ...]) -> list[str]:
    """All values of a secret flag become one mark, however many there were."""
    found: list[str] = []
    hidden = False
    for word in argv:
        name, equals, _ = word.partition("=")
        if word.startswith("-"):
            hidden = bool(_SECRET_FLAG.match(name)) and not equals
            found.append(f"{name}={MARK}" if equals and _SECRET_FLAG.match(name) else word)
        elif not hidden:
            found.append(word)
        elif found[-1] != MARK:
            found.append(MARK)
    return found


def _secrets(argv: tuple[str, ...]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    flag: str | None = None
    for word in argv:
        name, equals, value = word.partition("=")
        if word.startswith("-"):
            secret = bool(_SECRET_FLAG.match(name))
            flag = name if secret and not equals else None
            if secret and equals:
                found.setdefault(name, []).append(value)
        elif flag is not None:
            found.setdefault(flag, []).append(word)
    return found
