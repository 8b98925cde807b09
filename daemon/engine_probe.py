"""What any engine tells without the plugin: whether it answers, its version, its model."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from typing import Any

import httpx2

from daemon.config import Config
from daemon.errors import ConfigError

LARGEST_ANSWER_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Probe:
    """One look at an engine; None is unknown. `error` says why it is not reachable."""

    reachable: bool
    version: str | None = None
    model: str | None = None
    error: str | None = None


class EngineProbe:
    """Asks the engine's own HTTP API. Use it from one event loop and close it there."""

    def __init__(
        self, config: Config, api_key: str | None, transport: httpx2.AsyncBaseTransport | None = None
    ) -> None:
        engine = config.engine
        self.url = engine.url + engine.root_path
        self._timeout = engine.timeout_seconds
        self._client = httpx2.AsyncClient(
            verify=tls_verification(config),
            timeout=self._timeout,
            trust_env=False,
            transport=transport,
            headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
        )

    async def look(self) -> Probe:
        """Ask once; never raises for an engine that is down or strange."""
        try:
            models = await self._get("/v1/models")
        except (httpx2.HTTPError, OSError, TimeoutError) as error:
            text = " ".join(str(error).split()) or type(error).__name__
            return Probe(
                False,
                error=f"nobody answers at {self.url} ({text}): check that the engine runs, and engine.url",
            )
        version: Any = None
        try:
            version = await self._get("/version")
        except (httpx2.HTTPError, OSError, TimeoutError):
            version = (
                None  # it answered a moment ago; a missing version is unknown, not an engine that is gone
            )
        return Probe(True, _text(version, "version"), _first_model(models))

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _get(self, path: str) -> Any:
        """The JSON of a good answer, or None for any other answer."""
        async with asyncio.timeout(self._timeout), self._client.stream("GET", self.url + path) as response:
            body = bytearray()
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > LARGEST_ANSWER_BYTES:
                    return None
        if not response.is_success:
            return None
        try:
            return httpx2.Response(200, content=bytes(body)).json()
        except ValueError:
            return None


def tls_verification(config: Config) -> ssl.SSLContext | bool:
    """How certificates are checked; raises `ConfigError` for a CA file that cannot be used."""
    tls = config.engine.tls
    if not tls.verify:
        return False
    if tls.ca_file is None:
        return True
    try:
        return ssl.create_default_context(cafile=str(tls.ca_file))
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"engine.tls.ca_file: {tls.ca_file} cannot be used: {error}") from error


def _text(answer: Any, key: str) -> str | None:
    value = answer.get(key) if isinstance(answer, dict) else None
    return value[:200] if isinstance(value, str) else None


def _first_model(answer: Any) -> str | None:
    data = answer.get("data") if isinstance(answer, dict) else None
    return _text(data[0], "id") if isinstance(data, list) and data else None
