"""The stall probe: one request for one token, sent only while the engine looks stuck, to tell whether it is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import httpx2

from collectors.page import tls_context
from collectors.sample import CollectorError, Sample

PROMPT = "1"
LARGEST_ANSWER_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Suspicion:
    """An engine that looks stuck, and the name it serves its model under where that is known."""

    model: str | None = None


class StallProbe:
    """Sends the request to the tuned engine's completions route.

    `url` is the server's address with the proxy's path. `suspicion` tells at a time (Unix seconds) whether the
    engine looks stuck; while it does not, nothing is sent. Between two requests pass at least `pause_seconds`. An
    answer counts as late after `timeout_seconds`; closing the connection then makes the engine drop the request.
    `token` is for the plugin's gate. The source is never read twice at once, so there is never a second request.
    """

    name = "stall_probe"

    def __init__(
        self,
        url: str,
        suspicion: Callable[[float], Suspicion | None],
        *,
        api_key: str | None = None,
        token: str | None = None,
        ca_file: Path | None = None,
        verify: bool = True,
        interval_seconds: float = 5.0,
        pause_seconds: float = 60.0,
        timeout_seconds: float = 20.0,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self.interval_seconds = interval_seconds
        self._url = f"{url.rstrip('/')}/v1/completions"
        self._suspicion = suspicion
        self._headers = {
            **({"Authorization": f"Bearer {api_key}"} if api_key else {}),
            **({"X-Trimtab-Token": token} if token else {}),
        }
        self._tls = tls_context(url.startswith("https:"), verify, ca_file)
        self._pause = pause_seconds
        self._timeout = timeout_seconds
        self._transport = transport
        self._sent_at: float | None = None
        self._outcome: tuple[bool, float] | CollectorError | None = None

    async def collect(self, now: float) -> list[Sample]:
        """Give what the last request showed; empty without a suspicion.

        Raises CollectorError where the request could not be made, which says nothing of a stall.
        """
        suspicion = self._suspicion(now)
        if suspicion is None:
            self._outcome = None
            return []
        if self._sent_at is None or not 0.0 <= now - self._sent_at < self._pause:
            self._sent_at, self._outcome = now, None
            try:
                self._outcome = await self._ask(suspicion)
            except CollectorError as failure:
                self._outcome = failure
        if isinstance(self._outcome, CollectorError):
            raise self._outcome
        if self._outcome is None:
            return []
        success, seconds = self._outcome
        return [
            Sample("trimtab_engine_probe_success", float(success), now),
            Sample("trimtab_engine_probe_seconds", seconds, now),
        ]

    async def _ask(self, suspicion: Suspicion) -> tuple[bool, float]:
        body: dict[str, object] = {"prompt": PROMPT, "max_tokens": 1, "temperature": 0.0}
        if suspicion.model is not None:
            body["model"] = suspicion.model
        began = time.perf_counter()
        try:
            async with asyncio.timeout(self._timeout):
                status = await self._post(body)
        except TimeoutError:
            return False, time.perf_counter() - began
        except httpx2.HTTPError as failure:
            reason = " ".join(str(failure).split()) or type(failure).__name__
            raise CollectorError(f"{self._url}: the probe could not be sent: {reason}") from failure
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            raise CollectorError(f"{self._url}: HTTP 503: the gate is closed or the queue is full")
        if 400 <= status < 500:
            raise CollectorError(
                f"{self._url}: HTTP {status} to the probe: check engine.api_key_file and engine.root_path"
            )
        return status == HTTPStatus.OK, time.perf_counter() - began

    async def _post(self, body: dict[str, object]) -> int:
        """The status of a whole answer; only its size is looked at."""
        async with (
            httpx2.AsyncClient(
                verify=self._tls, trust_env=False, timeout=None, transport=self._transport
            ) as client,
            client.stream("POST", self._url, headers=self._headers, json=body) as response,
        ):
            read = 0
            async for chunk in response.aiter_bytes():
                read += len(chunk)
                if read > LARGEST_ANSWER_BYTES:
                    break  # more than one token ever needs: it does answer
            return response.status_code
