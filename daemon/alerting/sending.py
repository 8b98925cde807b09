"""Everybody who is told of alerts: every Alertmanager and every webhook of the configuration."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from urllib.parse import urlsplit

from collectors.sample import Sample, labels
from daemon import credentials
from daemon.alerting.addressee import engine_name, sent_with
from daemon.config import Config, WebSection
from daemon.errors import ConfigError
from daemon.notices import Notices
from daemon.sections.rules import AlertmanagerSection, WebhookSection
from rules.alert import Alert
from rules.alertmanager.sender import Sender
from rules.alertmanager.target import Target
from rules.delivery.health import Health
from rules.delivery.http import Access, Wire, context
from rules.webhooks.formats import FORMATS
from rules.webhooks.robot import Robot, secrets_of
from web.bind import is_loopback

SEND_SECONDS = 1.0
"""Between two looks for what waits, at each target by itself."""
WEBHOOK_SECONDS = 10.0
"""Longest wait for one answer of a webhook."""
REFUSED_SECONDS = 3600.0
"""How long it is news that a target would not have an alert."""

_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - compared, not bound

Tick = Callable[[float], Awaitable[object]]


class Sending:
    """Takes alerts and sends them from loops of its own; also the answer to whether one is silenced."""

    def __init__(self, config: Config, notices: Notices, clock: Callable[[], float]) -> None:
        """Raises `ConfigError` for a secret, an address or a certificate that cannot be used."""
        self._notices = notices
        page = page_url(config.web)
        names = _Names()
        targets = [_target(section, names, clock) for section in config.alertmanagers]
        self.sender = Sender(targets, sent_with(config), page)
        link = page if _reachable(config.web) else ""
        self._robots = [_robot(section, config, names, link, clock) for section in config.rules.webhooks]

    def take(self, alerts: Sequence[Alert], now: float) -> None:
        """Have every Alertmanager told of alerts, changed or not."""
        self.sender.put(alerts, now)

    def changed(self, alerts: Sequence[Alert], now: float) -> None:
        """Have every webhook told of alerts that began to fire or are over."""
        for robot in self._robots:
            robot.put(alerts, now)

    async def notify(self, text: str, now: float) -> Mapping[str, str | None]:
        """Tell words to people by every webhook; by name what went wrong, None where they arrived."""
        return {robot.name: await robot.notify(text, now) for robot in self._robots}

    async def suppressed(self, fingerprint: str, now: float) -> bool | None:
        """Whether an alert is silenced or inhibited; see `Sender.suppressed`."""
        return await self.sender.suppressed(fingerprint, now)

    def loops(self, stop: asyncio.Event) -> Iterator[tuple[str, Tick]]:
        """A loop for each target, by name: a slow one holds no other up, nor the end of the daemon, which is `stop`."""
        for one in self._everybody:
            yield f"sending to {one.name}", self._tick(one, stop)

    def health(self) -> list[Health]:
        """How it goes with each target."""
        return [one.health for one in self._everybody]

    def samples(self, now: float) -> Iterable[Sample]:
        """What the exporter says of it."""
        for health in self.health():
            own = labels(target=health.name)
            yield Sample("trimtab_notifications_sent_total", float(health.sent), now, own)
            yield Sample("trimtab_notifications_dropped_total", float(health.dropped), now, own)
            yield Sample("trimtab_notifications_failed_total", float(health.failed), now, own)
            yield Sample("trimtab_notification_queue_length", float(health.queued), now, own)

    @property
    def _everybody(self) -> tuple[Target | Robot, ...]:
        return (*self.sender.targets, *self._robots)

    async def close(self) -> None:
        """Close every connection."""
        await self.sender.close()
        for robot in self._robots:
            await robot.close()

    def _tick(self, one: Target | Robot, stop: asyncio.Event) -> Tick:
        async def tick(now: float) -> None:
            sending, stopping = asyncio.create_task(one.send_due()), asyncio.create_task(stop.wait())
            try:
                await asyncio.wait({sending, stopping}, return_when=asyncio.FIRST_COMPLETED)
                if sending.done():
                    sending.result()
            finally:
                sending.cancel()
                stopping.cancel()
                await asyncio.gather(sending, stopping, return_exceptions=True)
            self._tell(one.health, now)

        return tick

    def _tell(self, health: Health, now: float) -> None:
        key, name = f"sending to {health.name}", health.name
        if health.error is not None:
            self._notices.say(
                key, f"alerts do not reach {name}: {health.error}; they are kept and tried again"
            )
        else:
            self._notices.over(key, f"alerts reach {name} again")
        refused = f"{key}: refused"
        if health.refused_at is not None and now - health.refused_at < REFUSED_SECONDS:
            self._notices.say(refused, f"{name} refused an alert, which is dropped: {health.refused}")
        else:
            self._notices.over(refused, f"{name} has refused no alert for an hour")


class _Names:
    """Names by which targets are told apart in metrics and logs: no two alike."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def take(self, wanted: str) -> str:
        name, number = wanted, 1
        while name in self._taken:
            number += 1
            name = f"{wanted} ({number})"
        self._taken.add(name)
        return name


def page_url(web: WebSection) -> str:
    """The address of our page of alerts, as it is told to others; empty where the port is not known beforehand.

    It is the first name of `web.allowed_hosts`, else the address that is bound, else this machine's name: a loopback
    address would be that of whoever reads it.
    """
    if web.port == 0:
        return ""
    named = next((name for name in web.allowed_hosts if name != "*"), None)
    host = named or (web.host if _reachable(web) and web.host not in _EVERYWHERE else socket.gethostname())
    bare = f"[{host}]" if ":" in host and not named else host
    port = "" if named and ":" in named else f":{web.port}"
    return f"http://{bare}{port}{web.root_path}/alerts"


def _reachable(web: WebSection) -> bool:
    """Whether people elsewhere may come to the page."""
    return not is_loopback(web.host) or any(name != "*" for name in web.allowed_hosts)


def own_page(url: str, web: WebSection) -> bool:
    """Whether an alert's `generatorURL` names our page."""
    own = page_url(web)
    return bool(own) and (url == own or url.startswith((f"{own}?", f"{own}#")))


def _target(section: AlertmanagerSection, names: _Names, clock: Callable[[], float]) -> Target:
    parts = urlsplit(section.url)
    try:
        verify = context(section.tls.ca_file, section.tls.verify)
    except ValueError as error:
        raise ConfigError(f"alertmanagers ({section.url}): tls.ca_file: {error}") from error
    password, bearer = credentials.alertmanager_secrets(section)
    basic = (section.username, password) if section.username is not None and password is not None else None
    wire = Wire(Access(basic, bearer, verify, section.timeout_seconds))
    return Target(names.take(parts.netloc + parts.path), section.url, wire, clock)


def _robot(
    section: WebhookSection, config: Config, names: _Names, page: str, clock: Callable[[], float]
) -> Robot:
    url, secret = credentials.webhook_secrets(section)
    hidden = (*secrets_of(url), *([secret] if secret else []))
    return Robot(
        names.take(section.name),
        url,
        FORMATS[section.format],
        Wire(Access(timeout=WEBHOOK_SECONDS), secrets=hidden),
        clock,
        secret=secret,
        least_severity=section.least_severity,
        page_url=page,
        engine=engine_name(config),
        own=sent_with(config),
    )
