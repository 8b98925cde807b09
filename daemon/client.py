"""Ask the running daemon: the commands' way to its JSON API."""

from __future__ import annotations

from typing import Any

import httpx2

from daemon.config import Config
from daemon.credentials import web_token
from daemon.errors import BAD, UNREACHABLE, USAGE, UserError
from daemon.presence import Presence, find

TIMEOUT_SECONDS = 30.0


class DaemonClient:
    """A running daemon's API. Every failure is a `UserError` that says what and how to mend it."""

    def __init__(self, presence: Presence, token: str | None) -> None:
        self._presence = presence
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    @property
    def pid(self) -> int:
        """The daemon's process."""
        return self._presence.pid

    def get(self, path: str, **query: Any) -> Any:
        """Read a resource."""
        return self._ask("GET", path, params=query)

    def post(self, path: str, body: dict[str, Any], *, timeout_seconds: float = TIMEOUT_SECONDS) -> Any:
        """Order a change."""
        return self._ask("POST", path, timeout_seconds, json=body)

    def _ask(self, method: str, path: str, timeout_seconds: float = TIMEOUT_SECONDS, **options: Any) -> Any:
        try:
            # trust_env off: a proxy of the environment must not see the token or get between us and loopback.
            with httpx2.Client(headers=self._headers, timeout=timeout_seconds, trust_env=False) as http:
                response = http.request(method, f"{self._presence.url.rstrip('/')}/api/v1/{path}", **options)
        except httpx2.TimeoutException as error:
            raise UserError(
                f"the daemon (pid {self.pid}) did not answer within {timeout_seconds:g} s", UNREACHABLE
            ) from error
        except httpx2.HTTPError as error:
            raise UserError(f"the daemon (pid {self.pid}) cannot be asked: {error}", UNREACHABLE) from error
        if response.is_success:
            return response.json()
        raise UserError(_reason(response), _code(response.status_code))


def running(config: Config) -> DaemonClient | None:
    """The daemon that looks after the configured engine, or None if there is none."""
    presence = find(config.run_dir, config.engine.url)
    return None if presence is None else DaemonClient(presence, web_token(config))


def _reason(response: httpx2.Response) -> str:
    if response.status_code == 401:
        return "the daemon asks for its token: set web.token_file as the daemon has it"
    try:
        detail = response.json()["detail"]
    except (ValueError, KeyError, TypeError):
        return f"the daemon answered HTTP {response.status_code}"
    return detail if isinstance(detail, str) else f"the daemon refused the figures: {detail}"


def _code(status: int) -> int:
    if status in (502, 503, 504):
        return UNREACHABLE
    return USAGE if status in (400, 401, 403, 422) else BAD
