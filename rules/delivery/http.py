"""One bounded request to one address, whose failures say what and where, and never a secret."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx2

MOST_ANSWER_BYTES = 64 * 1024
STARS = "***"

# It logs each address at level info, and an address may hold a robot's key.
logging.getLogger("httpx2").setLevel(logging.WARNING)


class Unreachable(Exception):
    """Nobody answered as HTTP has it; the text says why, without the address."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: the status, the body (cut at the limit), and the seconds of `Retry-After` if it gave some."""

    status: int
    body: bytes
    whole: bool = True
    retry_after: float | None = None

    @property
    def ok(self) -> bool:
        """Whether the status is one of success."""
        return 200 <= self.status < 300

    @property
    def text(self) -> str:
        """The body as one short line for people."""
        words = self.body[:2000].decode(errors="replace").split()
        return "".join(c if c.isprintable() else "?" for c in " ".join(words))[:200]


@dataclass(frozen=True, slots=True)
class Access:
    """How to come in: at most one of basic authentication and a bearer token; `verify` is whether, or with which
    context, certificates are checked; `timeout` is seconds for one whole request."""

    basic: tuple[str, str] | None = None
    bearer: str | None = None
    verify: ssl.SSLContext | bool = True
    timeout: float = 10.0

    def __repr__(self) -> str:
        return "Access(...)"

    def secrets(self) -> tuple[str, ...]:
        """What must not be shown."""
        return tuple(text for text in (self.bearer, self.basic[1] if self.basic else None) if text)


def context(ca_file: Path | None, verify: bool) -> ssl.SSLContext | bool:
    """How certificates are checked. Raises `ValueError` for a file of authorities that cannot be used."""
    if ca_file is None or not verify:
        return verify
    try:
        return ssl.create_default_context(cafile=str(ca_file))
    except (OSError, ssl.SSLError) as error:
        raise ValueError(f"{ca_file} cannot be used: {error}") from error


class Wire:
    """A client of one target. Use it from one event loop and close it there."""

    def __init__(
        self,
        access: Access,
        *,
        secrets: Sequence[str] = (),
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        """`secrets` are further texts, an address with a key for one, that no error may show."""
        self._timeout = access.timeout
        self._secrets = sorted({*secrets, *access.secrets()}, key=len, reverse=True)
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        if access.bearer is not None:
            headers["Authorization"] = f"Bearer {access.bearer}"
        # The environment's proxies are not for us, and a redirect would carry the secret elsewhere.
        self._client = httpx2.AsyncClient(
            headers=headers,
            auth=httpx2.BasicAuth(*access.basic) if access.basic is not None else None,
            verify=access.verify,
            timeout=access.timeout,
            trust_env=False,
            follow_redirects=False,
            transport=transport,
        )

    async def post(
        self,
        url: str,
        content: bytes,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send JSON. Raises `Unreachable`."""
        sent = {"Content-Type": "application/json; charset=utf-8", **(headers or {})}
        return await self._ask("POST", url, params=_pairs(params), headers=sent, content=content)

    async def get(self, url: str, params: Sequence[tuple[str, str]], *, most_bytes: int) -> Answer:
        """Ask; an answer over `most_bytes` is not `whole`. Raises `Unreachable`."""
        return await self._ask("GET", url, params=list(params), most_bytes=most_bytes)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _ask(
        self,
        method: str,
        url: str,
        *,
        params: list[tuple[str, str]] | None = None,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
        most_bytes: int = MOST_ANSWER_BYTES,
    ) -> Answer:
        try:
            target = httpx2.URL(url)
            if params:
                target = target.copy_merge_params(httpx2.QueryParams(tuple(params)))
            async with (
                # The client's own time-outs are for each read: a peer that drips bytes would hold us for ever.
                asyncio.timeout(self._timeout),
                self._client.stream(method, target, headers=headers, content=content) as response,
            ):
                body = bytearray()
                whole = True
                async for chunk in response.aiter_bytes():
                    body += chunk
                    if len(body) > most_bytes:
                        whole = False
                        break
        except (httpx2.TimeoutException, TimeoutError):
            raise Unreachable(f"no answer within {self._timeout:g} s") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
            # Without the cause: a trace of it would show the address.
            raise Unreachable(self._without_secrets(str(error)) or type(error).__name__) from None
        return Answer(
            response.status_code,
            self._cleaned(bytes(body[:most_bytes])),
            whole,
            _seconds(response.headers.get("retry-after")),
        )

    def _cleaned(self, body: bytes) -> bytes:
        for secret in self._secrets:
            body = body.replace(secret.encode(), STARS.encode())
        return body

    def _without_secrets(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, STARS)
        return " ".join(text.split())[:200]


def _pairs(params: Mapping[str, str] | None) -> list[tuple[str, str]] | None:
    return list(params.items()) if params else None


def _seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 7 else None
