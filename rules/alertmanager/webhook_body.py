"""The body of Alertmanager's webhook, version 4, into alerts: a pure function over what anybody may have sent."""

from __future__ import annotations

import calendar
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from collectors.sample import Labels
from rules.alert import fingerprint
from rules.alertmanager.payload import REPLACED, plain_text, sent_labels

MOST_BYTES = 1024 * 1024
MOST_ALERTS = 1000
MOST_KEPT_BYTES = 16 * 1024
"""Of one alert as it came, with its post; of a larger one the labels, times and status are kept."""
DEEPEST = 32
"""Levels of lists and of objects, each."""
MOST_BRACKETS = 50_000
"""Twice what a megabyte of the smallest real alerts has: more is a body made to cost time."""
VERSION = "4"
POST = "post"
"""Under this key an alert has what its post says beside the alerts."""

Status = Literal["firing", "resolved"]

_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,12}))?(?:[Zz]|([+-])(\d\d):(\d\d))",
    re.ASCII,
)
_FINGERPRINT = re.compile(r"[0-9a-f]{16}")
# One that nothing closes reaches to the end: else every escaped quote in it would be tried as a start.
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*(?:"|\\?\Z)', re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


class WebhookError(ValueError):
    """The body is not what Alertmanager sends; the text says in which way. To send it again would not help."""


@dataclass(frozen=True, slots=True)
class Received:
    """One alert that came. `starts_at` is Unix seconds, 0.0 where it names none; `body` is all of it, cleaned.

    So is what its post says beside the alerts, under `POST`: group, receiver, address.
    """

    fingerprint: str
    starts_at: float
    status: Status
    labels: Labels
    annotations: Labels
    generator_url: str
    body: Mapping[str, Any]

    @property
    def unchanged(self) -> Labels:
        """The labels that are as Alertmanager has them: `labels` are made valid, and it is not asked in those words."""
        if fingerprint(self.labels) == self.fingerprint:
            return self.labels
        came = self.body.get("labels")
        had = came if isinstance(came, Mapping) else {}
        return tuple(
            (name, value) for name, value in self.labels if had.get(name) == value and REPLACED not in value
        )


@dataclass(frozen=True, slots=True)
class Delivery:
    """One post: its alerts, and how many more it spoke of that are not here (too many, or without labels)."""

    alerts: tuple[Received, ...]
    left_out: int


def parse(body: bytes) -> Delivery:
    """Read a post. Raises `WebhookError`.

    Fields that we do not know are kept. One alert that makes no sense is left out and counted, and does not cost the
    others their way.
    """
    if len(body) > MOST_BYTES:
        raise WebhookError(
            f"the body is over {MOST_BYTES} bytes: set max_alerts of the webhook in Alertmanager"
        )
    whole = _json(body)
    if not isinstance(whole, dict):
        raise WebhookError("the body is no JSON object")
    if whole.get("version") != VERSION:
        raise WebhookError(
            f'expected "version": "4" of Alertmanager\'s webhook, got {str(whole.get("version"))[:20]!r}'
        )
    alerts = whole.get("alerts")
    if not isinstance(alerts, list) or not all(isinstance(alert, dict) for alert in alerts):
        raise WebhookError('"alerts" is no list of objects')
    post = _clean({name: value for name, value in whole.items() if name != "alerts"})
    room = MOST_KEPT_BYTES - len(json.dumps(post))
    found = tuple(read for alert in alerts[:MOST_ALERTS] if (read := _alert(alert, post, room)) is not None)
    cut = whole.get("truncatedAlerts")
    truncated = cut if isinstance(cut, int) and not isinstance(cut, bool) and 0 < cut < 2**53 else 0
    return Delivery(found, len(alerts) - len(found) + truncated)


def unix_time(text: object) -> float | None:
    """A time of RFC 3339 with any number of digits below the second; None for none, and for Go's zero time."""
    if not isinstance(text, str) or (found := _TIME.fullmatch(text)) is None:
        return None
    year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
    if year <= 1:
        return None
    try:
        moment = datetime(year, month, day, hour, minute, min(second, 59))
    except ValueError:
        return None
    sign, hours, minutes = found.groups()[7:]
    offset = 0 if sign is None else (int(hours) * 3600 + int(minutes) * 60) * (-1 if sign == "-" else 1)
    fraction = float(f"0.{found.group(7)}") if found.group(7) else 0.0
    return calendar.timegm(moment.timetuple()) - offset + fraction


def _json(body: bytes) -> Any:
    brackets = _STRING.sub(b"", body).translate(None, _NO_BRACKETS)
    if len(brackets) > MOST_BRACKETS:
        raise WebhookError(f"the body holds more than {MOST_BRACKETS // 2} lists and objects")
    if _too_deep(brackets):
        raise WebhookError(f"the body is no JSON, or nested deeper than {DEEPEST}")
    try:
        return json.loads(body, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise WebhookError(f"the body is no JSON: {str(error)[:100]}") from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _too_deep(brackets: bytes) -> bool:
    """Whether lists and objects stand deeper in each other than `DEEPEST`, or do not close: nothing is built for it."""
    for _ in range(DEEPEST):
        # Each turn takes the innermost pairs away.
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
    return bool(brackets)


def _alert(alert: Mapping[str, Any], post: Mapping[str, Any], room: int) -> Received | None:
    """Read one alert; `room` are the bytes that it may have beside its post."""
    raw = _texts(alert.get("labels"))
    status = alert.get("status")
    if not raw or status not in ("firing", "resolved"):
        return None
    labels = sent_labels(raw)
    if not labels:
        return None
    given = alert.get("fingerprint")
    known = given if isinstance(given, str) and _FINGERPRINT.fullmatch(given) else fingerprint(labels)
    link = alert.get("generatorURL")
    return Received(
        known,
        unix_time(alert.get("startsAt")) or 0.0,
        status,
        labels,
        sent_labels(_texts(alert.get("annotations"))),
        plain_text(link[:2048]) if isinstance(link, str) else "",
        _kept(alert, post, room),
    )


def _texts(pairs: object) -> Labels:
    if not isinstance(pairs, dict):
        return ()
    return tuple((name, value) for name, value in pairs.items() if isinstance(value, str))


def _kept(alert: Mapping[str, Any], post: Mapping[str, Any], room: int) -> dict[str, Any]:
    kept = _clean(alert)
    assert isinstance(kept, dict)
    size = len(json.dumps(kept))
    if size > MOST_KEPT_BYTES:
        times = {key: kept[key] for key in ("status", "startsAt", "endsAt", "fingerprint") if key in kept}
        return {key: value if not isinstance(value, str) else value[:64] for key, value in times.items()}
    return kept if size > room or POST in kept else {**kept, POST: post}


def _clean(value: Any) -> Any:
    """The same value, with no character in it that cannot be stored or shown."""
    if isinstance(value, str):
        return plain_text(value, lines=True)
    if isinstance(value, dict):
        return {plain_text(str(name)): _clean(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_clean(inner) for inner in value]
    return value
