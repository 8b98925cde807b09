"""One webhook: what it has yet to be told, merged into few messages, within what its service allows."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from urllib.parse import parse_qsl, urlsplit

from rules.alert import Alert
from rules.delivery.backoff import Backoff
from rules.delivery.health import Health
from rules.delivery.http import Unreachable, Wire
from rules.webhooks.formats import Format, encoded
from rules.webhooks.message import Message

CAPACITY = 10_000
MOST_NOTES = 50
MESSAGES_PER_MINUTE = 20
WINDOW_SECONDS = 61.0
"""DingTalk and WeCom take 20 messages a minute, after more DingTalk is silent for ten: a second to spare."""
OLDEST_SECONDS = 3600.0
"""What could not be told for so long is not told any more: it is no news, and it may be what the robot refuses."""

_RANK = {"info": 0, "warning": 1, "critical": 2}


def secrets_of(url: str) -> tuple[str, ...]:
    """What of an address must not be shown: all of it, the values of its query, and long parts of its path."""
    parts = urlsplit(url)
    values = [value for _, value in parse_qsl(parts.query)]
    return (url, *(part for part in (*values, *parts.path.split("/")) if len(part) >= 8))


class Robot:
    """Tells one webhook of each alert when it begins to fire and when it is over. Use it from one event loop.

    Alertmanager is sent every alert again and again; a robot is told of changes only. What it was told is kept in
    memory, and so is what it has yet to hear: a crash of the process loses that.
    """

    def __init__(
        self,
        name: str,
        url: str,
        form: Format,
        wire: Wire,
        clock: Callable[[], float],
        *,
        secret: str | None = None,
        least_severity: str = "warning",
        page_url: str = "",
        engine: str = "",
        own: Mapping[str, str] | None = None,
        backoff: Backoff | None = None,
    ) -> None:
        """`url` is a secret and stands in no error; `clock` gives Unix seconds; `engine` and `own` as for `Message`."""
        self.name = name
        self.health = Health(name)
        self._url = url
        self._form = form
        self._wire = wire
        self._clock = clock
        self._secret = secret
        self._least = _RANK[least_severity]
        self._page_url = page_url
        self._engine = engine
        self._own = own or {}
        self._backoff = backoff or Backoff(name, longest=600.0)
        self._born = clock()
        self._waiting: OrderedDict[str, tuple[float, Alert]] = OrderedDict()
        self._notes: deque[tuple[float, str]] = deque()
        self._told: OrderedDict[str, tuple[str, float | None]] = OrderedDict()
        self._posts: deque[float] = deque(maxlen=MESSAGES_PER_MINUTE)
        self._turn = asyncio.Lock()

    def put(self, alerts: Sequence[Alert], now: float) -> None:
        """Have it told of those of these that are news to it and bad enough."""
        for alert in alerts:
            if (
                alert.state == "pending"
                or _RANK.get(alert.severity, 1) < self._least
                or not self._is_news(alert)
            ):
                continue
            key = alert.fingerprint
            self._told[key] = (alert.state, alert.fired_at)
            self._told.move_to_end(key)
            if key not in self._waiting and len(self._waiting) >= CAPACITY:
                self._waiting.popitem(last=False)
                self.health.dropped += 1
            self._waiting[key] = (now, alert)
        while len(self._told) > 2 * CAPACITY:
            self._told.popitem(last=False)
        self._count()

    async def send_due(self) -> None:
        """Tell what waits, in as few messages as it takes; what is over the limit waits and is merged."""
        async with self._turn:
            while True:
                now = self._clock()
                self._expire(now)
                if (
                    not (self._waiting or self._notes)
                    or not self._backoff.ready(now)
                    or not self._may_post(now)
                ):
                    return
                if not await self._tell(now):
                    return

    async def notify(self, text: str, now: float) -> str | None:
        """Tell words to people; returns why they did not arrive, None if they did.

        What could not be said now goes with the next message, for an hour.
        """
        note = (now, text)
        self._notes.append(note)
        while len(self._notes) > MOST_NOTES:
            self._notes.popleft()
            self.health.dropped += 1
        await self.send_due()
        if note not in self._notes:
            return None
        if not self._may_post(now):
            return f"held back: over {MESSAGES_PER_MINUTE} messages a minute; it goes with the next one"
        return self.health.error or "held back; it goes with the next message"

    async def close(self) -> None:
        """Close the connections."""
        await self._wire.close()

    def _is_news(self, alert: Alert) -> bool:
        before = self._told.get(alert.fingerprint)
        if before is not None:
            return before != (alert.state, alert.fired_at)
        # Before this process was born an earlier one told of it.
        return alert.state == "firing" or (alert.resolved_at or 0.0) >= self._born

    async def _tell(self, now: float) -> bool:
        """Post one message; whether it arrived."""
        most = len(self._waiting) if self._form.at_once is None else self._form.at_once
        taken = list(islice(self._waiting.items(), most))
        notes = list(self._notes)
        message = Message(
            tuple(alert for _, (_, alert) in taken),
            tuple(text for _, text in notes),
            self._page_url,
            self._engine,
            self._own,
        )
        reason = await self._post(message, now)
        if reason is not None:
            now = self._clock()
            self.health.failure(now, reason)
            self._backoff.failed(now)
            return False
        self._backoff.succeeded()
        for key, state in taken:
            if self._waiting.get(key) is state:
                del self._waiting[key]
        for note in notes:
            if note in self._notes:
                self._notes.remove(note)
        self.health.success(self._clock(), len(taken))
        self._count()
        return True

    async def _post(self, message: Message, now: float) -> str | None:
        request = self._form.body(message, now, self._secret)
        self._posts.append(now)
        try:
            answer = await self._wire.post(
                self._url, encoded(request.json), params=request.params, headers=request.headers
            )
        except Unreachable as error:
            return str(error)
        return self._form.verdict(answer)

    def _may_post(self, now: float) -> bool:
        full = len(self._posts) == MESSAGES_PER_MINUTE
        return not full or not 0.0 <= now - self._posts[0] < WINDOW_SECONDS

    def _expire(self, now: float) -> None:
        for key, (since, _) in list(self._waiting.items()):
            if now - since <= OLDEST_SECONDS:
                break
            del self._waiting[key]
            self.health.dropped += 1
        while self._notes and now - self._notes[0][0] > OLDEST_SECONDS:
            self._notes.popleft()
            self.health.dropped += 1
        self._count()

    def _count(self) -> None:
        self.health.queued = len(self._waiting) + len(self._notes)
