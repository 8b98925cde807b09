"""What goes over the plugin's HTTP wire: requests read and checked by shape, answers and refusals sent."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import parse_qs

Scope = dict[str, Any]
Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MAX_BODY_BYTES = 64 * 1024
MAX_LEASE = 3600.0
MAX_MARK = 64
LINGER_SECONDS = 2.0
LINGER_BYTES = 16 * 1024 * 1024


class Refused(Exception):
    """An answer that is an error: HTTP status, JSON body, extra headers."""

    def __init__(
        self, status: int, error: str, headers: Mapping[str, str] | None = None, **more: Any
    ) -> None:
        super().__init__(error)
        self.status = status
        self.body = {"error": error, **more}
        self.headers = dict(headers or {})


def header(scope: Scope, name: bytes) -> bytes | None:
    """Return a request header's value; names in `scope` are lower case by the ASGI standard."""
    for key, value in scope["headers"]:
        if key == name:
            return bytes(value)
    return None


async def read_json(scope: Scope, receive: Receive) -> dict[str, Any]:
    """Read a JSON object of at most 64 KiB; a longer body is refused without being kept."""
    too_long = Refused(413, f"the body is over {MAX_BODY_BYTES} bytes", {"Connection": "close"})
    length = header(scope, b"content-length")
    if length is not None and (not length.isdigit() or int(length[:19]) > MAX_BODY_BYTES):
        raise too_long
    data = b""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused(400, "the body ended early")
        data += message.get("body", b"")
        if len(data) > MAX_BODY_BYTES:
            raise too_long
        if not message.get("more_body"):
            break
    try:
        body = json.loads(data, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Refused(400, f"the body is not valid JSON: {error}") from None
    if not isinstance(body, dict):
        raise Refused(400, "the body must be a JSON object")
    return body


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def knobs_request(body: dict[str, Any]) -> dict[str, Any]:
    """Check the shape of a knobs request; names and bounds are the engine's to check."""
    expect_keys(body, {"values", "if_epoch", "lease_seconds", "revert_to", "mark"})
    for key in ("values", "revert_to"):
        values = body.get(key)
        if key == "revert_to" and values is None:
            continue
        if not isinstance(values, dict) or (key == "values" and not values):
            raise Refused(400, f"{key} must be an object of knob names and numbers")
        for name, value in values.items():
            if isinstance(value, bool) or not isinstance(value, (int, float)) or abs(value) > 2**53:
                raise Refused(422, f"{key}: {name} must be a number within 2**53, not {str(value)[:80]}")
    epoch = body.get("if_epoch")
    if isinstance(epoch, bool) or not isinstance(epoch, int) or abs(epoch) > 2**53:
        raise Refused(400, "if_epoch must be the whole number of the epoch you read")
    mark = body.get("mark")
    if mark is not None and not (isinstance(mark, str) and len(mark) <= MAX_MARK and mark.isprintable()):
        raise Refused(400, f"mark must be printable text of at most {MAX_MARK} characters")
    return {
        "op": "knobs",
        "values": body["values"],
        "if_epoch": epoch,
        "lease_seconds": number(body, "lease_seconds", MAX_LEASE),
        "revert_to": body.get("revert_to") or {},
        "mark": mark,
    }


def expect_keys(body: dict[str, Any], known: set[str]) -> None:
    unknown = sorted(set(body) - known)
    if unknown:
        raise Refused(400, f"unknown key {unknown[0][:80]!r}: there are {', '.join(sorted(known))}")


def number(body: dict[str, Any], key: str, highest: float) -> float | None:
    """Return `body[key]` as seconds above 0 and at most `highest`; None when absent or null."""
    value = body.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= highest:
        raise Refused(400, f"{key} must be above 0 and at most {highest:g} seconds, not {str(value)[:80]}")
    return float(value)


def query_since(scope: Scope) -> int:
    """Return `since` of the query, 0 when absent."""
    text = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("since", ["0"])[-1]
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise Refused(400, f"since must be a whole number, not {text[:80]!r}")
    return int(text)


async def respond(
    send: Send,
    status: int,
    body: dict[str, Any],
    headers: Mapping[str, str] | None = None,
    *,
    unread: Receive | None = None,
) -> None:
    """Send `body` as JSON; `unread` is where the rest of a request comes from that was refused before its end.

    That rest is thrown away, within bounds: a connection closed on data still coming is reset, and the client
    would never see why it was refused.
    """
    data = json.dumps(body, separators=(",", ":")).encode()
    sent = {"content-type": "application/json", "content-length": str(len(data)), "cache-control": "no-store"}
    sent.update((name.lower(), value) for name, value in (headers or {}).items())
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in sent.items()],
        }
    )
    await send({"type": "http.response.body", "body": data, "more_body": unread is not None})
    if unread is not None:
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(_discard(unread), LINGER_SECONDS)
        await send({"type": "http.response.body", "body": b""})


async def _discard(receive: Receive) -> None:
    left = LINGER_BYTES
    while left > 0:
        message = await receive()
        left -= len(message.get("body", b""))
        if message["type"] == "http.disconnect" or not message.get("more_body"):
            return
