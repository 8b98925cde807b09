"""What an engine says of its start without the secrets of its command: vLLM prints all its arguments, keys included."""

from __future__ import annotations

import re
from collections.abc import Callable

from change.restart.command import MARK, written
from change.server import LaunchCommand

_LEAST = 4
"""A shorter value is no secret worth the name, and would be found inside other words."""
_NAMED = re.compile(
    r"""(?P<name>["']?\b[\w-]*(?:api[-_]?key|token|secret|password|passwd)["']?\s*[:=]\s*)"""
    r"""(?P<value>\[[^\]]*(?:\]|$)|"[^"]*(?:"|$)|'[^']*(?:'|$)|[^\s,;)}'"\[]+)""",
    re.IGNORECASE,
)
_PIECE = re.compile(r"""[^\s"'=,;:{}\[\]]+""")
_HARMLESS = re.compile(r"^(?:None|null|True|False|true|false|\d+(?:\.\d+)?|''|\"\"|\[\])$")


def redactor(command: LaunchCommand) -> Callable[[str], str]:
    """Make a function that takes the secrets of `command` out of a line, and what stands under a secret's name."""
    secrets = sorted(_secrets(command), key=len, reverse=True)

    def redacted(line: str) -> str:
        for secret in secrets:
            line = line.replace(secret, MARK)
        return _NAMED.sub(_hidden, line)

    return redacted


def _hidden(found: re.Match[str]) -> str:
    value = found["value"]
    return found[0] if _HARMLESS.match(value) or value == MARK else f"{found['name']}'{MARK}'"


def _secrets(command: LaunchCommand) -> set[str]:
    """The values that the journal would not keep."""
    kept = written(command)
    shown = " ".join(kept["argv"])
    changed = {*command.argv} - {*kept["argv"]}
    # A changed word is a secret itself, or has one inside: behind a name, or in a JSON text.
    values = changed | {piece for word in changed for piece in _PIECE.findall(word) if piece not in shown}
    values |= {value for name, value in command.environ.items() if kept["environ"].get(name, value) == MARK}
    return {value for value in values if len(value) >= _LEAST}
