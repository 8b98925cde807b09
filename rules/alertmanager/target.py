"""One Alertmanager: what waits for it, and the one request at a time that brings it there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from http import HTTPStatus

from rules.alertmanager.payload import Posted
from rules.alertmanager.queue import BATCH, CAPACITY, AlertQueue
from rules.delivery.backoff import Backoff
from rules.delivery.health import Health
from rules.delivery.http import Answer, Unreachable, Wire

ALERTS = "/api/v2/alerts"

_REFUSED = (HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY)
"""What is wrong with the batch itself. Alertmanager answers 400 where it kept all alerts but the bad ones, and 400 or
422 where it kept none because one had not the form of an alert; a proxy answers 413. Which it was cannot be told."""


class Failed(Exception):
    """The target did not take a batch for a reason that is not the batch's; it is tried again."""

    def __init__(self, text: str, retry_after: float | None = None) -> None:
        super().__init__(text)
        self.retry_after = retry_after


class Target:
    """Sends to one Alertmanager. Use it from one event loop."""

    def __init__(
        self,
        name: str,
        url: str,
        wire: Wire,
        clock: Callable[[], float],
        *,
        capacity: int = CAPACITY,
        batch: int = BATCH,
        backoff: Backoff | None = None,
    ) -> None:
        """`name` is how logs and metrics show it, `url` its address with its path; `clock` gives Unix seconds."""
        self.name = name
        self.health = Health(name)
        self.wire = wire
        self.alerts_url = url.rstrip("/") + ALERTS
        self._queue = AlertQueue(capacity, batch)
        self._clock = clock
        self._backoff = backoff or Backoff(name)
        self._turn = asyncio.Lock()

    def put(self, alerts: Iterable[Posted]) -> None:
        """Have these sent; the latest state of one alert takes the place of the one that waits."""
        self.health.dropped += self._queue.put(alerts)
        self.health.queued = len(self._queue)

    def waits_for(self, fingerprint: str) -> bool:
        """Whether the target has yet to hear of this alert."""
        return self._queue.holds(fingerprint)

    async def send_due(self) -> None:
        """Send all that waits, batch by batch, until it is done or the target fails; then not before its pause is over.

        Never two requests at once: who comes second waits for the first.
        """
        async with self._turn:
            while True:
                now = self._clock()
                self.health.dropped += self._queue.expire(now)
                self.health.queued = len(self._queue)
                batch = self._queue.batch()
                if not batch or not self._backoff.ready(now):
                    return
                try:
                    await self._deliver(batch)
                except Failed as failure:
                    now = self._clock()
                    self.health.failure(now, str(failure))
                    self._backoff.failed(now, failure.retry_after)
                    return
                finally:
                    self.health.queued = len(self._queue)
                self._backoff.succeeded()

    async def close(self) -> None:
        """Close the connections."""
        await self.wire.close()

    async def _deliver(self, batch: Sequence[Posted]) -> None:
        """Send a batch; one that is refused in halves, until the bad alerts stand alone and are dropped.

        What the target kept of a refused batch is sent again with its half, which changes nothing there. A target that
        refuses everything counts as failing, so that it is not asked as often as there are alerts.
        """
        parts = [tuple(batch)]
        anything = False
        while parts:
            part = parts.pop()
            refusal = await self._post(part)
            if refusal is None:
                anything = True
                self._queue.done(part)
            elif len(part) == 1:
                self.health.refusal(self._clock(), f"{_shown(part[0])}: {refusal}")
                self._queue.done(part)
            else:
                half = len(part) // 2
                parts += [part[half:], part[:half]]
        if not anything and len(batch) > 1:
            raise Failed(f"it refuses every alert ({self.health.refused}): is this an Alertmanager?")

    async def _post(self, alerts: Sequence[Posted]) -> str | None:
        """Send these; returns why they were refused, None if they were taken. Raises `Failed`."""
        content = json.dumps([alert.body() for alert in alerts], ensure_ascii=False).encode()
        try:
            answer = await self.wire.post(self.alerts_url, content)
        except Unreachable as error:
            raise Failed(str(error)) from error
        if answer.ok:
            self.health.success(self._clock(), len(alerts))
            return None
        if answer.status in _REFUSED:
            return f"HTTP {answer.status}: {answer.text or 'no reason given'}"
        raise Failed(_why(answer), answer.retry_after)


def _why(answer: Answer) -> str:
    said = f" ({answer.text})" if answer.text else ""
    if answer.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return f"HTTP {answer.status}: it refuses the credentials{said}"
    if answer.status == HTTPStatus.NOT_FOUND:
        return (
            "HTTP 404: there is no API v2 at this address: give the path prefix of the Alertmanager in `url`"
        )
    if 300 <= answer.status < 400:
        return f"HTTP {answer.status}: it redirects elsewhere, which is not followed: give the final address"
    return f"HTTP {answer.status}{said}"


def _shown(alert: Posted) -> str:
    labels = dict(alert.labels)
    return f"{labels.get('alertname', 'an alert without a name')[:80]} ({alert.fingerprint})"
