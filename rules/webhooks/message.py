"""What a webhook is told: alerts that fire or are over, words to people; and how such a thing reads as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from rules.alert import Alert
from rules.alertmanager.payload import plain_text

MOST_NAMED = 20
"""Alerts named in one message to people; the rest is a number."""
LONGEST_VALUE = 200
LONGEST_SUMMARY = 500
LONGEST_NOTE = 2000

# Every one of these has a meaning in some dialect of Markdown or some robot's own marks: mentions, links, tags. Their
# full-width forms read the same and mean nothing.
_HARMLESS = str.maketrans(
    {
        "@": "＠",
        "<": "＜",
        ">": "＞",
        "[": "［",
        "]": "］",
        "*": "＊",
        "`": "｀",
        "#": "＃",
        "~": "～",
        "|": "｜",
        "!": "！",
        "\\": "＼",
    }
)
_TURNED_AROUND = dict.fromkeys(
    [*range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x206A), 0xFEFF]
)
"""Characters without a width, and those that turn the direction of reading: a text could look like another."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message: alerts in the order in which they came, `notes` in words, and our own page where there is one.

    `engine` is the one that all of it is about, `own` are the labels by which others know our alerts.
    """

    alerts: tuple[Alert, ...] = ()
    notes: tuple[str, ...] = ()
    page_url: str = ""
    engine: str = ""
    own: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Request:
    """What is posted to a webhook's address."""

    json: Mapping[str, Any]
    params: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


def harmless(text: str, longest: int = LONGEST_VALUE) -> str:
    """A text of somebody else's on one line, in which nothing is a mark, a mention or a link any more."""
    plain = plain_text(text).translate(_TURNED_AROUND).translate(_HARMLESS)
    flat = " ".join(plain.replace("://", "：//").replace("www.", "www．").split())
    return flat if len(flat) <= longest else flat[: longest - 1] + "…"


def title(message: Message) -> str:
    """The one line that a phone shows: at which engine, how many fire and are over, and the first of them."""
    head = "Trimtab alert" + (f" at {harmless(message.engine, 80)}" if message.engine else "")
    firing = [alert for alert in message.alerts if alert.state == "firing"]
    over = [alert for alert in message.alerts if alert.state == "resolved"]
    parts = []
    if firing:
        parts.append(f"{len(firing)} firing")
    if over:
        parts.append(f"{len(over)} resolved")
    if not parts:
        return f"{head}: notice"
    first = (firing or over)[0]
    more = f" and {len(message.alerts) - 1} more" if len(message.alerts) > 1 else ""
    return f"{head}: {', '.join(parts)} ({harmless(_name(first), 60)}{more})"


def lines(message: Message, bold: Callable[[str], str]) -> list[str]:
    """The text, a paragraph each: notes, then the worst alerts; nothing in them is a mark but what `bold` makes."""
    found = [harmless(note, LONGEST_NOTE) for note in message.notes]
    found += [_paragraph(alert, bold) for alert in _worst_first(message.alerts)[:MOST_NAMED]]
    return found


def fit(paragraphs: Sequence[str], total: int, page_url: str, room: int, joint: str = "\n\n") -> str:
    """Join as many paragraphs as `room` bytes of UTF-8 take, and say how many of `total` are not there."""
    kept = list(paragraphs)
    while True:
        left = total - len(kept)
        more = [f"and {left} more" + (f": {page_url}" if page_url else "")] if left else []
        text = joint.join([*kept, *more])
        if len(text.encode()) <= room:
            return text
        if len(kept) == 1:
            spare = room - len(joint.join(["…", *more]).encode())
            cut = kept[0].encode()[: max(spare, 0)].decode(errors="ignore")
            return joint.join([cut + "…", *more])
        kept.pop()


def _worst_first(alerts: Sequence[Alert]) -> list[Alert]:
    order = {"critical": 0, "warning": 1, "info": 2}
    return sorted(alerts, key=lambda alert: (alert.state != "firing", order.get(alert.severity, 1)))


def _paragraph(alert: Alert, bold: Callable[[str], str]) -> str:
    over = alert.state == "resolved"
    since = alert.fired_at if alert.fired_at is not None else alert.active_at
    word = "RESOLVED" if over else "FIRING"
    severity = harmless(alert.severity, 20)
    head = f"{bold(f'{word} {harmless(_name(alert))}')}" + (f" ({severity})" if severity else "")
    parts = [head]
    summary = alert.annotations.get("summary") or alert.annotations.get("description") or ""
    if summary:
        parts.append(harmless(summary, LONGEST_SUMMARY))
    own = [
        f"{harmless(name, 60)}={harmless(value)}"
        for name, value in alert.labels
        if name not in ("alertname", "severity") and value
    ]
    if own:
        parts.append(", ".join(own[:12]))
    times = f"since {_utc(since)}"
    if over and alert.resolved_at is not None:
        times += f", until {_utc(alert.resolved_at)}"
    else:
        times += f", value {alert.value:g}"
    parts.append(times)
    return "\n".join(parts)


def _name(alert: Alert) -> str:
    return dict(alert.labels).get("alertname", alert.rule)


def _utc(time: float) -> str:
    return datetime.fromtimestamp(min(max(time, 0.0), 253402300799.0), UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
