"""What the plugin reads from the engine's environment."""

from __future__ import annotations

import hmac
import os
from collections.abc import Mapping
from pathlib import Path


def disabled(environ: Mapping[str, str] = os.environ) -> bool:
    """Say whether `TRIMTAB_DISABLE` switches the whole plugin off."""
    return environ.get("TRIMTAB_DISABLE", "").strip().lower() in {"1", "true", "yes", "on"}


def starts_closed(environ: Mapping[str, str] = os.environ, *, now: float) -> bool:
    """Say whether `TRIMTAB_GATE=closed` asks for a gate that starts closed at `now` (Unix seconds).

    `TRIMTAB_GATE_UNTIL` says up to when it counts: in a container or a pod template the variables stay, and a later
    start by somebody else is none that is to be proved first.
    """
    if environ.get("TRIMTAB_GATE", "").strip().lower() != "closed":
        return False
    until = environ.get("TRIMTAB_GATE_UNTIL", "").strip()
    return not until.isdecimal() or now < int(until)


class TokenFile:
    """The shared secret: the file named by `TRIMTAB_TOKEN_FILE`, read at each check so that it can rotate."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._path = environ.get("TRIMTAB_TOKEN_FILE", "").strip()

    def problem(self) -> str | None:
        """Return why there is no token to compare with, or None; the text never holds the secret."""
        return self._read()[1]

    def matches(self, offered: bytes | None) -> bool:
        """Compare in constant time; False when nothing was offered or there is no token."""
        token = self._read()[0]
        return token is not None and offered is not None and hmac.compare_digest(token, offered)

    def _read(self) -> tuple[bytes | None, str | None]:
        if not self._path:
            return None, "the engine was started without TRIMTAB_TOKEN_FILE: set it to a file with a secret"
        try:
            token = Path(self._path).read_bytes().strip()
        except OSError as error:
            return (
                None,
                f"the engine cannot read its TRIMTAB_TOKEN_FILE ({error.strerror}): mend path or permissions",
            )
        if not token:
            return None, "the engine's TRIMTAB_TOKEN_FILE is empty: write a secret into it"
        return token, None
