"""Reads one engine's server: its metrics page, and from time to time what it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlsplit

from collectors.engines.families import EnginePage, KindName, Role
from collectors.engines.identity import Identity, IdentitySource
from collectors.engines.kinds import KindChoice, read_page, what_to_check
from collectors.engines.launch import Launch
from collectors.page import PageRefused, PageSource
from collectors.prometheus_text import PageError
from collectors.sample import SERVER, CollectorError, Sample, labels

IDENTITY_SECONDS = 60.0
"""How often an engine is asked what it is; it is asked again at once after it was away."""
IDENTITY_TIMEOUT_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Server:
    """Where an engine's server is and what the operator said of it.

    `url` is its address, `root_path` what its proxy puts before its routes, `metrics_url` the page's whole
    address where it is somewhere else (MindIE's metricsPort). `api_key` goes into the Authorization header only.
    `label` tells the samples of an engine that is only watched from those of the tuned one, which has none.
    """

    url: str
    root_path: str = ""
    metrics_url: str | None = None
    api_key: str | None = None
    ca_file: Path | None = None
    verify: bool = True
    kind: KindChoice = "auto"
    role: Role | None = None
    label: str | None = None


class EngineCollector:
    """Scrapes one engine's server. `name` is the source's.

    `launch` reads the engine's command line where its process can be seen. A page larger than `max_bytes` or
    slower than `timeout_seconds` is an error.
    """

    def __init__(
        self,
        name: str,
        server: Server,
        *,
        launch: Callable[[], Launch | None] | None = None,
        interval_seconds: float = 1.0,
        timeout_seconds: float = 3.0,
        max_bytes: int = 16 * 1024 * 1024,
    ) -> None:
        self.name = name
        self.interval_seconds = interval_seconds
        self.notes: Sequence[str] = ()
        self._server = server
        self._find_launch = launch
        path = f"/{server.root_path.strip('/')}" if server.root_path.strip("/") else ""
        base = f"{server.url.rstrip('/')}{path}"
        headers = {"Authorization": f"Bearer {server.api_key}"} if server.api_key else None
        page_url = server.metrics_url or f"{base}/metrics"
        self._source = PageSource(
            page_url,
            # The key is this server's: a page on another host does not get it.
            headers=headers if urlsplit(page_url).hostname == urlsplit(base).hostname else None,
            ca_file=server.ca_file,
            verify=server.verify,
            timeout_seconds=timeout_seconds,
            max_bytes=max_bytes,
        )
        self._identity_source = IdentitySource(
            base,
            headers=headers,
            ca_file=server.ca_file,
            verify=server.verify,
            timeout_seconds=min(timeout_seconds, IDENTITY_TIMEOUT_SECONDS),
        )
        self._launch: Launch | None = None
        self._identity: Identity | None = None
        self._looked_at: float | None = None

    async def collect(self, now: float) -> list[Sample]:
        """Scrape once; raises CollectorError. An engine without a server of its own gives only what it is."""
        if self._looked_at is None or not 0.0 <= now - self._looked_at < IDENTITY_SECONDS:
            self._looked_at, self._identity = now, None
            self._launch = await asyncio.to_thread(self._find_launch) if self._find_launch else None
        if self._role() == "headless":
            self.notes = (f"{self.name}: the engine runs --headless and serves no metrics on this node",)
            return self._labelled([self._info(now, self._launch.kind if self._launch else None, {})])
        try:
            page = await self._page(now)
        except CollectorError:
            self._looked_at = None  # what comes back may be another engine
            raise
        if self._identity is None:
            self._identity = await self._identity_source.ask(page.kind, self._role(page))
        note = self._launch.note if self._launch else None
        self.notes = (*self._identity.notes, *((note,) if note else ()))
        return self._labelled([*page.samples, *self._infos(page, now)])

    async def _page(self, now: float) -> EnginePage:
        try:
            text = await self._source.fetch()
            # A page of several engines takes long enough to hold up the event loop.
            return await asyncio.to_thread(read_page, text, now, self._server.kind)
        except PageError as failure:
            raise CollectorError(f"{self._source.url}: {failure}") from failure
        except PageRefused as refusal:
            if refusal.status == HTTPStatus.NOT_FOUND:
                raise CollectorError(f"{refusal} ({what_to_check(self._server.kind)})") from refusal
            raise

    def _role(self, page: EnginePage | None = None) -> Role | None:
        """What the operator says counts first, then the command line, the page, and the server."""
        told = (
            self._server.role,
            self._launch.role if self._launch else None,
            page.role if page else None,
            self._identity.role if self._identity else None,
        )
        return next((role for role in told if role is not None), None)

    def _infos(self, page: EnginePage, now: float) -> list[Sample]:
        ranks = [dict(rank) for rank in page.ranks()] or [{}]
        return [self._info(now, page.kind, rank, page) for rank in ranks]

    def _info(
        self, now: float, kind: KindName | None, rank: dict[str, str], page: EnginePage | None = None
    ) -> Sample:
        """What is unknown has no label."""
        pairs: dict[str, str | None] = {
            "kind": kind,
            "role": self._role(page),
            "version": self._identity.version if self._identity else None,
            **rank,
        }
        known = {key: value for key, value in pairs.items() if value is not None}
        return Sample("trimtab_engine_info", 1.0, now, labels(**known))

    def _labelled(self, samples: list[Sample]) -> list[Sample]:
        label = self._server.label
        if label is None:
            return samples
        return [
            Sample(sample.name, sample.value, sample.time, tuple(sorted((*sample.labels, (SERVER, label)))))
            for sample in samples
        ]
