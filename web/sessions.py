"""Proof of the token: compared in constant time, and kept in a signed cookie that does not hold it."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections import deque
from collections.abc import Callable

COOKIE = "trimtab_session"
SESSION_SECONDS = 12 * 3600
FAILURES_ALLOWED = 10
FAILURES_WINDOW_SECONDS = 60.0


class Sessions:
    """Issue and check sessions. Stateless: the token is the key, so changing it ends every session."""

    def __init__(self, token: str, clock: Callable[[], float]) -> None:
        if not token:
            raise ValueError("the web token is empty: put one into web.token_file, or configure none")
        self._token = token.encode()
        self._clock = clock
        self._failures: deque[float] = deque(maxlen=FAILURES_ALLOWED)

    def token_matches(self, given: str) -> bool:
        """Compare in a time that tells nothing about the token, its length included."""
        return hmac.compare_digest(
            hashlib.sha256(given.encode()).digest(), hashlib.sha256(self._token).digest()
        )

    def issue(self) -> str:
        """Make a cookie value good for `SESSION_SECONDS`."""
        stem = f"{int(self._clock()) + SESSION_SECONDS}.{secrets.token_urlsafe(12)}"
        return f"{stem}.{self._signature(stem)}"

    def valid(self, cookie: str) -> bool:
        """Tell whether this process's token signed the cookie and it has not run out."""
        stem, _, signature = cookie.rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._signature(stem).encode()):
            return False
        return int(stem.partition(".")[0]) > self._clock()

    def locked(self) -> bool:
        """Tell whether sign-in is closed for a while after too many failures."""
        full = len(self._failures) == FAILURES_ALLOWED
        return full and self._clock() - self._failures[0] < FAILURES_WINDOW_SECONDS

    def failed(self) -> None:
        """Count a failed sign-in."""
        self._failures.append(self._clock())

    def _signature(self, stem: str) -> str:
        return hmac.new(self._token, b"trimtab web session " + stem.encode(), hashlib.sha256).hexdigest()
