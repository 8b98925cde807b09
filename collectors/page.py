"""Fetches a metrics page over HTTP, whole or not at all."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import httpx2

from collectors.sample import CollectorError

ACCEPT = "text/plain;version=0.0.4"


class PageRefused(CollectorError):
    """The server answered with another status than 200, which is in `status`."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


class PageSource:
    """One metrics page.

    `headers` go with every request and never into an error's text. `ca_file` is a file of certificates
    to trust instead of the system's; `verify=False` trusts any. A page larger than `max_bytes` or slower than
    `timeout_seconds` in all is an error. Proxies named in the environment are not used, redirects not
    followed. Raises ValueError for an address or certificates that cannot be used.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: dict[str, str] | None = None,
        ca_file: Path | None = None,
        verify: bool = True,
        timeout_seconds: float = 3.0,
        max_bytes: int = 16 * 1024 * 1024,
    ) -> None:
        parsed = httpx2.URL(url)
        if parsed.scheme not in ("http", "https") or not parsed.host:
            raise ValueError(f"the address of a metrics page is http://... or https://..., got {url!r}")
        if parsed.userinfo:
            raise ValueError("the address of a metrics page holds no password: give it as a header")
        self.url = url
        self._headers = {**(headers or {}), "Accept": ACCEPT, "Accept-Encoding": "identity"}
        self._timeout = timeout_seconds
        self._max_bytes = max_bytes
        self._tls = tls_context(parsed.scheme == "https", verify, ca_file)

    async def fetch(self) -> str:
        """The text of the page; raises CollectorError with what went wrong and where."""
        try:
            async with asyncio.timeout(self._timeout):
                return await self._fetch()
        except TimeoutError:
            raise CollectorError(f"{self.url}: no whole page within {self._timeout:g} s") from None
        except httpx2.HTTPError as failure:
            reason = str(failure) or type(failure).__name__
            raise CollectorError(f"{self.url}: {reason}") from failure

    async def _fetch(self) -> str:
        async with (
            httpx2.AsyncClient(verify=self._tls, trust_env=False, timeout=self._timeout) as client,
            client.stream("GET", self.url, headers=self._headers) as response,
        ):
            if response.status_code != 200:
                raise PageRefused(
                    f"{self.url}: HTTP {response.status_code}{_hint(response.status_code)}",
                    response.status_code,
                )
            if response.headers.get("Content-Encoding", "identity") != "identity":
                raise CollectorError(f"{self.url}: the page is compressed though it was asked for plain")
            body = bytearray()
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > self._max_bytes:
                    raise CollectorError(f"{self.url}: the page is larger than {self._max_bytes} bytes")
            openmetrics = response.headers.get("Content-Type", "").startswith("application/openmetrics-text")
        try:
            text = body.decode()
        except UnicodeDecodeError as failure:
            raise CollectorError(f"{self.url}: the page is not UTF-8 (byte {failure.start})") from failure
        if openmetrics and not text.endswith("# EOF\n"):
            raise CollectorError(f"{self.url}: the page is cut off: it does not end with # EOF")
        return text


class SharedPage:
    """A page that several sources read: who asks for it while it is being fetched gets the same text."""

    def __init__(self, source: PageSource) -> None:
        self.url = source.url
        self._source = source
        self._fetching: asyncio.Task[str] | None = None
        self._waiting = 0

    async def fetch(self) -> str:
        """As `PageSource.fetch`."""
        if self._fetching is None:
            self._fetching = asyncio.create_task(self._source.fetch())
        fetching = self._fetching
        self._waiting += 1
        try:
            return await asyncio.shield(fetching)  # one who gives up takes it from no other
        finally:
            self._waiting -= 1
            if self._waiting == 0:
                self._fetching = None
                fetching.cancel()


def tls_context(secure: bool, verify: bool, ca_file: Path | None) -> ssl.SSLContext:
    """The context of every request, made once: loading the certificates costs more than a scrape."""
    if secure and verify:
        try:
            return ssl.create_default_context(cafile=str(ca_file) if ca_file else None)
        except OSError as failure:  # ssl.SSLError too: not there, or not certificates
            raise ValueError(f"the certificates of {ca_file} cannot be used: {failure}") from failure
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _hint(status: int) -> str:
    if status in (401, 403):
        return ": give the engine's api_key"
    if status == 404:
        return ": check root_path, and that the server has metrics enabled"
    return ""
