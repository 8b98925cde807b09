"""The bodies that webhooks take, by format: pure functions of a message, the time and the robot's secret."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from rules.alert import Alert
from rules.alertmanager.payload import plain_text, rfc3339
from rules.delivery.http import Answer
from rules.webhooks.message import Message, Request, fit, lines, title

FormatName = Literal["plain", "dingtalk", "feishu", "wecom"]

DINGTALK_BYTES = 20_000
FEISHU_BYTES = 20_000
WECOM_BYTES = 4096
"""Longest body of DingTalk and Feishu; longest Markdown text of WeCom."""

_ENVELOPE = 1500
"""Bytes of such a body that are not its text, and room for what JSON escapes."""
_MOST_PLAIN = 64


@dataclass(frozen=True, slots=True)
class Format:
    """One way of telling. `at_once` is how many alerts a message takes; None: all, in which the rest is a number."""

    name: FormatName
    body: Callable[[Message, float, str | None], Request]
    verdict: Callable[[Answer], str | None]
    at_once: int | None = None


def plain(message: Message, now: float, secret: str | None = None) -> Request:
    """JSON for a program of the operator's own (docs/alertmanager.md)."""
    return Request(
        {
            "source": "trimtab",
            "version": "1",
            "time": rfc3339(now),
            "page": message.page_url,
            "engine": message.engine,
            "alerts": [_plain_alert(alert, message.own) for alert in message.alerts],
            "notes": [plain_text(note, lines=True) for note in message.notes],
        }
    )


def dingtalk(message: Message, now: float, secret: str | None = None) -> Request:
    """A Markdown message; with a secret the address gets `timestamp` (ms) and `sign`, as DingTalk's robots ask.

    The signature is HMAC-SHA256 of "timestamp, line end, secret" under the secret, in base64; the address quotes it.
    """
    head = title(message)

    def body(room: int) -> dict[str, Any]:
        text = fit(lines(message, _starred), _total(message), message.page_url, room)
        # A line of Markdown ends with two spaces.
        shown = f"#### {head}\n\n" + text.replace("\n\n", "\0").replace("\n", "  \n").replace("\0", "\n\n")
        return {
            "msgtype": "markdown",
            "markdown": {"title": head, "text": shown},
            "at": {"atMobiles": [], "atUserIds": [], "isAtAll": False},
        }

    params = {}
    if secret is not None:
        stamp = str(round(now * 1000))
        params = {"timestamp": stamp, "sign": _signature(secret.encode(), f"{stamp}\n{secret}".encode())}
    return Request(_within(body, DINGTALK_BYTES), params)


def feishu(message: Message, now: float, secret: str | None = None) -> Request:
    """A card of plain text, in which nothing is a mark or a mention; signed inside the body where there is a secret.

    Feishu's signature is HMAC-SHA256 of nothing under the key "timestamp (s), line end, secret", in base64.
    """
    firing = any(alert.state == "firing" for alert in message.alerts)

    def body(room: int) -> dict[str, Any]:
        text = fit(lines(message, _plainly), _total(message), message.page_url, room)
        card = {
            "config": {"wide_screen_mode": True},
            "header": {
                "template": "red" if firing else "green" if message.alerts else "blue",
                "title": {"tag": "plain_text", "content": title(message)},
            },
            "elements": [{"tag": "div", "text": {"tag": "plain_text", "content": text}}],
        }
        return {"msg_type": "interactive", "card": card}

    signed: dict[str, Any] = {}
    if secret is not None:
        stamp = str(round(now))
        signed = {"timestamp": stamp, "sign": _signature(f"{stamp}\n{secret}".encode(), b"")}
    return Request(signed | _within(body, FEISHU_BYTES))


def wecom(message: Message, now: float, secret: str | None = None) -> Request:
    """A Markdown message of at most 4096 bytes; WeCom's robots know no signature, their address is the secret."""
    head = f"**{title(message)}**\n"
    room = WECOM_BYTES - len(head.encode())
    text = fit(lines(message, _starred), _total(message), message.page_url, room, joint="\n")
    return Request({"msgtype": "markdown", "markdown": {"content": head + text}})


def by_status(answer: Answer) -> str | None:
    """Why it failed, by HTTP alone; None if it arrived."""
    if answer.ok:
        return None
    said = f": {answer.text}" if answer.text else ""
    return f"HTTP {answer.status}{said}"


def by_code(answer: Answer) -> str | None:
    """Why it failed, by HTTP and by the code in the body: these robots answer HTTP 200 for what they refuse."""
    if not answer.ok:
        return by_status(answer)
    try:
        said = json.loads(answer.body)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        return "HTTP 200 without the JSON of a robot: is this its address?"
    code = next((said[key] for key in ("errcode", "code", "StatusCode") if key in said), None)
    if isinstance(code, int) and not isinstance(code, bool) and code == 0:
        return None
    if code is None:
        return "HTTP 200 without a code in it: is this a robot's address?"
    words = next(
        (said[key] for key in ("errmsg", "msg", "StatusMessage") if isinstance(said.get(key), str)), ""
    )
    shown = "".join(c if c.isprintable() else " " for c in words)[:150]
    return f"the robot refuses: code {str(code)[:20]} {shown}".strip()


FORMATS: Mapping[FormatName, Format] = {
    "plain": Format("plain", plain, by_status, _MOST_PLAIN),
    "dingtalk": Format("dingtalk", dingtalk, by_code),
    "feishu": Format("feishu", feishu, by_code),
    "wecom": Format("wecom", wecom, by_code),
}


def _plain_alert(alert: Alert, own: Mapping[str, str]) -> dict[str, Any]:
    started = alert.fired_at if alert.fired_at is not None else alert.active_at
    return {
        "status": alert.state,
        "fingerprint": alert.fingerprint,
        "labels": {
            plain_text(name): plain_text(value) for name, value in {**own, **dict(alert.labels)}.items()
        },
        "annotations": {
            plain_text(name): plain_text(value, lines=True) for name, value in alert.annotations.items()
        },
        "value": alert.value if math.isfinite(alert.value) else None,
        "startsAt": rfc3339(started),
        "endsAt": None if alert.resolved_at is None else rfc3339(alert.resolved_at),
        "playbook": alert.playbook,
    }


def _total(message: Message) -> int:
    return len(message.alerts) + len(message.notes)


def _within(body: Callable[[int], dict[str, Any]], most: int) -> dict[str, Any]:
    """The body of the longest text with which it keeps within `most` bytes as it is sent."""
    room = most - _ENVELOPE
    while True:
        made = body(room)
        if len(encoded(made)) <= most or room < 200:
            return made
        room = room * 3 // 4


def encoded(body: Mapping[str, Any]) -> bytes:
    """The bytes that are sent."""
    return json.dumps(body, ensure_ascii=False).encode()


def _signature(key: bytes, text: bytes) -> str:
    return base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode()


def _starred(text: str) -> str:
    return f"**{text}**"


def _plainly(text: str) -> str:
    return text
