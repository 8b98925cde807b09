"""What Alertmanager's webhook posts: stored, told once to who starts playbooks, and not more of it than is bearable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

import structlog

from collectors.sample import Labels
from daemon.alerting.sending import own_page
from daemon.config import WebSection
from rules.alertmanager.sender import Sender
from rules.alertmanager.webhook import Receipt, receive, recent
from rules.alertmanager.webhook_body import Received, WebhookError
from store import Store, StoreError
from web.body import Senseless, TryLater

BURST = 100
POSTS_PER_SECOND = 10.0
"""Posts with news: each is a transaction that the disk must confirm, some 5 to 25 ms in which nothing else is done."""
REPEAT_COST = 0.1
"""What a post without news counts: it is read and compared, and writes nothing."""
ALERTS_PER_POST = 20
"""So many alerts in a post count as one more: a thousand take a second to store."""
BYTES_PER_POST = 20 * 1024
"""The same for a body that makes no sense, of which nobody knows how many alerts it has."""
LARGE_BYTES = 32 * 1024
"""A larger post is read and stored beside the loop, which goes on meanwhile."""
RETRY_SECONDS = 10.0
AGAIN_SECONDS = 900.0
"""After a start, alerts that came so lately are told again: a crash may have been quicker than their run."""

log = structlog.get_logger("trimtab")


class ReceivedSink(Protocol):
    """Starts playbooks for alerts of others; an alert that comes twice must not start two runs."""

    def received(self, labels: Labels, fingerprint: str, starts_at: float) -> None:
        """Take an alert that fires."""
        ...

    def resolved(self, fingerprint: str) -> None:
        """Take the end of one."""
        ...


class Receiving:
    """The daemon's side of `POST /api/v1/alertmanager`; sinks may be added before the first post."""

    def __init__(
        self, store: Store, engine: str, sender: Sender, web: WebSection, clock: Callable[[], float]
    ) -> None:
        self.sinks: list[ReceivedSink] = []
        self._store = store
        self._engine = engine
        self._sender = sender
        self._web = web
        self._clock = clock
        self._allowance = float(BURST)
        self._counted = clock()
        self._restored = False

    async def take(self, body: bytes) -> dict[str, Any]:
        """Store a post and tell of what is new in it. Raises `Senseless`, `TryLater` or `StoreError`."""
        now = self._clock()
        self._count(now)
        try:
            if len(body) > LARGE_BYTES:
                receipt = await asyncio.to_thread(receive, body, self._store, self._engine, now)
            else:
                receipt = receive(body, self._store, self._engine, now)
        except WebhookError as error:
            self._allowance -= len(body) / BYTES_PER_POST
            raise Senseless(str(error)) from error
        self._allowance -= receipt.taken / ALERTS_PER_POST
        if not receipt.news:
            self._allowance += 1.0 - REPEAT_COST
        ours = self._tell(receipt)
        return {
            "taken": receipt.taken,
            "new": len(receipt.firing),
            "resolved": len(receipt.resolved),
            "own": ours,
            "left_out": receipt.left_out,
        }

    async def tick(self, now: float) -> None:
        """Once after the start, tell again what came just before it and fires still; until the store can be read."""
        if self._restored or not self.sinks:
            return
        try:
            alerts = recent(self._store, self._engine, now - AGAIN_SECONDS)
        except StoreError:
            return  # the housekeeping says so
        self._restored = True
        for alert in alerts:
            if not self._is_ours(alert):
                self._hand_over(alert)

    def _tell(self, receipt: Receipt) -> int:
        ours = 0
        theirs: list[Received] = []
        for alert in receipt.firing:
            if self._is_ours(alert):
                # It came from our own rules, and has started there what it starts.
                ours += 1
                continue
            theirs.append(alert)
            self._hand_over(alert)
        if theirs:
            # One line for a post: it may bring a thousand.
            log.info(
                "alertmanager brought alerts",
                alerts=len(theirs),
                first=dict(theirs[0].labels),
                starts_at=theirs[0].starts_at,
            )
        for alert in receipt.resolved:
            for sink in self.sinks:
                sink.resolved(alert.fingerprint)
        if receipt.left_out:
            log.warning("alerts of a webhook's post were left out", left_out=receipt.left_out)
        return ours

    def _hand_over(self, alert: Received) -> None:
        self._sender.learn(alert.fingerprint, alert.unchanged)
        for sink in self.sinks:
            sink.received(alert.labels, alert.fingerprint, alert.starts_at)

    def _is_ours(self, alert: Received) -> bool:
        return self._sender.is_ours(alert.fingerprint) or own_page(alert.generator_url, self._web)

    def _count(self, now: float) -> None:
        gained = max(now - self._counted, 0.0) * POSTS_PER_SECOND
        self._allowance = min(self._allowance + gained, float(BURST))
        self._counted = now
        if self._allowance < 1.0:
            raise TryLater(
                "too many posts at once: the alerts are not stored, send them again", RETRY_SECONDS
            )
        self._allowance -= 1.0
