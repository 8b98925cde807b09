"""The hot lane of a real engine: the plugin's HTTP API under `/trimtab/v1`."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import httpx2

from change.engine import (
    EngineError,
    EngineState,
    EngineUnreachable,
    KnobAnswer,
    PluginAbsent,
    RequestPage,
    StaleEpoch,
    Values,
)
from daemon.engine.wire import read_answer, read_error, read_page, read_state

TOKEN_HEADER = "X-Trimtab-Token"  # noqa: S105  a header's name

_SMALL_BODY = 256 * 1024
_PAGE_BODY = 32 * 1024 * 1024
_GATEWAY = (HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT)


class HotEngine:
    """One engine's plugin over HTTP; an `EngineControl`. Use it from one event loop and close it there."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        api_key: str | None = None,
        verify: bool | Path = True,
        root_path: str = "",
        timeout: float = 5.0,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        """Prepare to talk to the engine at `url`; nothing is sent yet.

        `token` opens the plugin, `api_key` is the engine's own key, `verify` is whether (or with which CA
        file) TLS certificates are checked, `root_path` the path the engine is served under, `timeout` seconds
        for one whole call. Raises `EngineError` for an address, secret or CA file that cannot work.
        """
        self._base = _base(url, root_path)
        self._timeout = timeout
        self._headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        if token is not None:
            self._headers[TOKEN_HEADER] = _header_value(token, "the plugin's token")
        if api_key is not None:
            self._headers["Authorization"] = "Bearer " + _header_value(api_key, "the engine's API key")
        # The environment's proxies are for the outer world; the engine is next door.
        self._client = httpx2.AsyncClient(
            verify=_tls(verify, self._base), timeout=timeout, trust_env=False, transport=transport
        )
        self._name = _without_secrets(self._base)

    async def state(self) -> EngineState:
        """Read the plugin's state; see `EngineControl`."""
        return read_state(await self._call("GET", "state", limit=_SMALL_BODY))

    async def set_knobs(
        self,
        values: Values,
        *,
        if_epoch: int,
        lease_seconds: float | None,
        revert_to: Values | None = None,
        mark: str | None = None,
    ) -> KnobAnswer:
        """Apply values; see `EngineControl`. After `EngineUnreachable` it is unknown whether they were."""
        body: dict[str, Any] = {"values": dict(values), "if_epoch": if_epoch, "lease_seconds": lease_seconds}
        if revert_to is not None:
            body["revert_to"] = dict(revert_to)
        if mark is not None:
            body["mark"] = mark
        return read_answer(await self._call("POST", "knobs", json=body, limit=_SMALL_BODY))

    async def requests(self, since: int) -> RequestPage:
        """Read finished requests; see `EngineControl`."""
        body = await self._call("GET", "requests", params={"since": str(since)}, limit=_PAGE_BODY)
        return read_page(body, since)

    async def gate(
        self, state: Literal["open", "closed"], *, lease_seconds: float, retry_after: float
    ) -> None:
        """Open or close the engine to new requests; see `EngineControl`."""
        body = {"state": state, "lease_seconds": lease_seconds, "retry_after": retry_after}
        await self._call("POST", "gate", json=body, limit=_SMALL_BODY)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"HotEngine({self._name!r})"

    async def _call(
        self,
        method: str,
        what: str,
        *,
        limit: int,
        json: Mapping[str, Any] | None = None,
        params: Mapping[str, str] | None = None,
    ) -> bytes:
        """Send one request and return the body of a good answer of at most `limit` bytes."""
        url = f"{self._base}/trimtab/v1/{what}"
        try:
            # The client's own time-outs are per read: a peer that drips bytes would hold us for ever.
            async with (
                asyncio.timeout(self._timeout),
                self._client.stream(method, url, json=json, params=params, headers=self._headers) as response,
            ):
                body = await self._body(response, what, limit)
        except (httpx2.TimeoutException, TimeoutError) as error:
            raise EngineUnreachable(
                f"{self._name} did not answer to {what} within {self._timeout:g} s: is the engine running?"
            ) from error
        except (httpx2.LocalProtocolError, httpx2.RemoteProtocolError, httpx2.DecodingError) as error:
            raise EngineError(f"{self._name} does not speak HTTP as it should: {error}") from error
        except (httpx2.HTTPError, OSError) as error:
            raise EngineUnreachable(
                f"nobody answers at {self._name} ({error or type(error).__name__}): "
                "check that the engine runs, and engine.url"
            ) from error
        if response.status_code != HTTPStatus.OK:
            raise self._refusal(response, what, body)
        return body

    async def _body(self, response: httpx2.Response, what: str, limit: int) -> bytes:
        body = bytearray()
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > limit:
                raise EngineError(
                    f"{self._name} answers {what} with more than {limit} bytes: this is not the plugin"
                )
        return bytes(body)

    def _refusal(self, response: httpx2.Response, what: str, body: bytes) -> EngineError:
        status = response.status_code
        answer = read_error(body)
        said = answer.text or "no reason given"
        if status == HTTPStatus.NOT_FOUND:
            return PluginAbsent(
                f"{self._name} has no Trimtab plugin: install it beside the engine and restart the engine"
            )
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            return PluginAbsent(
                f"{self._name} refuses the token ({said}): give engine.token_file the file that the engine "
                "was started with"
            )
        if status == HTTPStatus.CONFLICT and answer.epoch is not None:
            return StaleEpoch(said, answer.epoch)
        # The plugin answers these for one missing service too; its state and its knobs tell of the whole engine.
        if status in _GATEWAY and (what in ("state", "knobs") or not answer.named):
            return EngineUnreachable(f"{self._name} answers {what} with HTTP {status}: {said}")
        if 300 <= status < 400:
            return EngineError(f"{self._name} redirects {what} elsewhere (HTTP {status}): check engine.url")
        return EngineError(f"{self._name} answers {what} with HTTP {status}: {said}")


def _base(url: str, root_path: str) -> str:
    try:
        parsed = httpx2.URL(url)
    except (httpx2.InvalidURL, ValueError) as error:
        raise EngineError("engine.url is not a URL: expected http://host:port") from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise EngineError(f"engine.url {_without_secrets(url)!r}: expected http://host:port")
    root = root_path.strip("/")
    return url.rstrip("/") + (f"/{root}" if root else "")


def _without_secrets(url: str) -> str:
    parsed = httpx2.URL(url)
    return str(parsed.copy_with(username=None, password=None, query=None, fragment=None)).rstrip("/")


def _header_value(secret: str, what: str) -> str:
    stripped = secret.strip()
    if not stripped or not stripped.isascii() or not stripped.isprintable():
        raise EngineError(f"{what} cannot be sent in a header: expected printable ASCII, not empty")
    return stripped


def _tls(verify: bool | Path, url: str) -> ssl.SSLContext | bool:
    if isinstance(verify, bool) or not url.startswith("https:"):
        return bool(verify)
    try:
        return ssl.create_default_context(cafile=str(verify))
    except (OSError, ssl.SSLError) as error:
        raise EngineError(f"the CA file {verify} cannot be used: {error}") from error
