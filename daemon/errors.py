"""What the daemon and its commands say to the person who runs them: one line, and how to mend it."""

from __future__ import annotations

BAD = 1
"""Exit code: the thing asked about is bad."""
USAGE = 2
"""Exit code: usage or configuration error."""
UNREACHABLE = 3
"""Exit code: the engine (or the daemon that holds it) does not answer."""


class UserError(Exception):
    """Something the person can mend: the text says what and how; `code` is the exit code."""

    def __init__(self, message: str, code: int = BAD) -> None:
        super().__init__(message)
        self.code = code


class ConfigError(UserError):
    """The configuration cannot be used; every line of the text is one mistake with its place."""

    def __init__(self, message: str) -> None:
        super().__init__(message, USAGE)
