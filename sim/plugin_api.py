"""The plugin's HTTP contract, `/trimtab/v1`, in front of a simulated node.

Shapes, order of checks and errors are those of the plugin in a real server; what is behind them is `sim.hand`.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import math
from collections.abc import Callable
from dataclasses import asdict
from typing import Any
from urllib.parse import parse_qs

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from change.engine import EngineUnreachable, StaleEpoch
from sim.hand import MAX_GATE_LEASE_SECONDS, MAX_LEASE_SECONDS, MAX_MARK, CallRefused, ValueRefused
from sim.pace import Pace

PREFIX = "/trimtab"
ROUTES = {
    "/trimtab/v1/state": "GET",
    "/trimtab/v1/requests": "GET",
    "/trimtab/v1/knobs": "POST",
    "/trimtab/v1/gate": "POST",
}
TOKEN_HEADER = "x-trimtab-token"  # noqa: S105  a header's name
MAX_BODY_BYTES = 64 * 1024
LINGER_SECONDS = 2.0
LINGER_BYTES = 16 * 1024 * 1024
_LARGEST = 2**53


class Refused(Exception):
    """An answer that is an error: HTTP status, text, extra headers, more of the body.

    `unread` says that the request's own body is still to come.
    """

    def __init__(
        self,
        status: int,
        error: str,
        headers: dict[str, str] | None = None,
        *,
        unread: bool = False,
        **more: Any,
    ) -> None:
        super().__init__(error)
        self.unread = unread
        self.status = status
        self.body = {"error": error, **more}
        self.headers = headers or {}


class PluginApi:
    """Answers every request below `/trimtab`."""

    def __init__(self, pace: Pace, token: str | None) -> None:
        """`token` opens changes; None refuses them. Reads need none: the server listens on loopback only."""
        self._pace = pace
        self._control = pace.node.control
        self._token = token

    def holds_token(self, request: Request) -> bool:
        """Whether the request brings the token, as a probe does through a closed gate."""
        return self._matches(request.headers.get(TOKEN_HEADER))

    def _matches(self, offered: str | None) -> bool:
        if self._token is None or offered is None:
            return False
        return hmac.compare_digest(self._token.encode(), offered.encode("latin-1"))

    async def answer(self, request: Request) -> Response:
        """Answer one request."""
        try:
            body = await self._route(request)
            status, headers = 200, {}
        except Refused as refused:
            body, status, headers = refused.body, refused.status, refused.headers
            if refused.unread:
                await _discard(request)
        except EngineUnreachable as error:
            body, status, headers = {"error": str(error)}, 503, {}
        return JSONResponse(body, status, {"Cache-Control": "no-store", **headers})

    async def _route(self, request: Request) -> dict[str, Any]:
        path = request.url.path
        method = ROUTES.get(path)
        if method is None:
            raise Refused(404, f"no such path: {path}; there are {', '.join(ROUTES)}")
        if request.method != method:
            raise Refused(
                405,
                f"{path} takes {method}, not {request.method}",
                {"Allow": method, "Connection": "close"},
                unread=True,
            )
        if method == "POST":
            self._authorise(request)
        answers: dict[str, Callable[[Any], dict[str, Any]]] = {
            "/trimtab/v1/knobs": self._knobs,
            "/trimtab/v1/gate": self._gate,
        }
        body = await _json(request) if method == "POST" else None
        self._pace.catch_up()
        if path.endswith("/state"):
            return {k: v for k, v in asdict(self._control.read_state()).items() if k != "options"}
        if path.endswith("/requests"):
            return self._requests(request)
        return answers[path](body)

    def _authorise(self, request: Request) -> None:
        if self._token is None:
            raise Refused(
                403,
                "the engine was started without TRIMTAB_TOKEN_FILE: set it to a file with a secret; "
                "changes are refused",
                {"Connection": "close"},
                unread=True,
            )
        offered = request.headers.get(TOKEN_HEADER)
        if offered is None:
            bearer = request.headers.get("authorization", "")
            offered = bearer[7:].strip() if bearer[:7].lower() == "bearer " else None
        if not self._matches(offered):
            what = "missing" if offered is None else "wrong"
            raise Refused(
                401,
                f"the token is {what}: send the secret of TRIMTAB_TOKEN_FILE in the header X-Trimtab-Token",
                {"WWW-Authenticate": "Bearer", "Connection": "close"},
                unread=True,
            )

    def _requests(self, request: Request) -> dict[str, Any]:
        since = parse_qs(request.url.query).get("since", ["0"])[-1]
        if not (since.isascii() and since.isdigit() and len(since) < 19):
            raise Refused(400, f"since must be a whole number, not {since[:80]!r}")
        return asdict(self._control.page(int(since)))

    def _knobs(self, body: dict[str, Any]) -> dict[str, Any]:
        _expect_keys(body, {"values", "if_epoch", "lease_seconds", "revert_to", "mark"})
        for key in ("values", "revert_to"):
            values = body.get(key)
            if key == "revert_to" and values is None:
                continue
            if not isinstance(values, dict) or (key == "values" and not values):
                raise Refused(400, f"{key} must be an object of knob names and numbers")
            for name, value in values.items():
                if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > _LARGEST:
                    raise Refused(422, f"{key}: {name} must be a number within 2**53, not {str(value)[:80]}")
        epoch = body.get("if_epoch")
        if isinstance(epoch, bool) or not isinstance(epoch, int) or abs(epoch) > _LARGEST:
            raise Refused(400, "if_epoch must be the whole number of the epoch you read")
        mark = body.get("mark")
        if mark is not None and not isinstance(mark, str):
            raise Refused(400, f"mark must be printable text of at most {MAX_MARK} characters")
        lease = _seconds(body, "lease_seconds", MAX_LEASE_SECONDS)
        try:
            answer = self._control.apply(
                body["values"],
                if_epoch=epoch,
                lease_seconds=lease,
                revert_to=body.get("revert_to"),
                mark=mark,
            )
        except StaleEpoch as error:
            raise Refused(409, str(error), epoch=error.epoch) from error
        except ValueRefused as error:
            raise Refused(422, str(error), epoch=self._pace.node.engine.epoch) from error
        except CallRefused as error:
            raise Refused(400, str(error)) from error
        return asdict(answer)

    def _gate(self, body: dict[str, Any]) -> dict[str, Any]:
        _expect_keys(body, {"state", "lease_seconds", "retry_after"})
        state = body.get("state")
        if state not in ("open", "closed"):
            raise Refused(400, f'state must be "open" or "closed", not {state!r}')
        engine = self._pace.node.engine
        if state == "closed":
            lease = _seconds(body, "lease_seconds", MAX_GATE_LEASE_SECONDS)
            if lease is None:
                raise Refused(400, f"a closed gate needs lease_seconds, at most {MAX_GATE_LEASE_SECONDS:g}")
            retry_after = _seconds(body, "retry_after", MAX_LEASE_SECONDS)
            self._control.set_gate(state, lease_seconds=lease, retry_after=retry_after or 1.0)
        else:
            self._control.set_gate(state, lease_seconds=1.0, retry_after=1.0)
        closed = self._control.gate_state == "closed"
        return {
            "gate": self._control.gate_state,
            "lease_remaining_seconds": engine.gate_reopens - engine.clock if closed else None,
            "retry_after": engine.gate_retry_after,
        }

    def turned_away(self) -> Response | None:
        """What a new `/v1` request is told while the gate is closed; None while it is open."""
        if self._control.gate_state == "open":
            return None
        engine = self._pace.node.engine
        remaining = engine.gate_reopens - engine.clock
        retry_after = max(1, math.ceil(min(engine.gate_retry_after, remaining)))
        error = {
            "message": "the server takes no new requests for the moment",
            "type": "overloaded",
            "code": 503,
        }
        return JSONResponse({"error": error}, 503, {"Retry-After": str(retry_after)})


async def _json(request: Request) -> dict[str, Any]:
    """The JSON object of a body of at most 64 KiB; a longer one is refused without being kept."""
    try:
        data = await read_body(request, MAX_BODY_BYTES)
    except ClientDisconnect:
        raise Refused(400, "the body ended early") from None
    if data is None:
        raise Refused(413, f"the body is over {MAX_BODY_BYTES} bytes", {"Connection": "close"})
    try:
        body = json.loads(data, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Refused(400, f"the body is not valid JSON: {error}") from None
    if not isinstance(body, dict):
        raise Refused(400, "the body must be a JSON object")
    return body


async def read_body(request: Request, limit: int) -> bytes | None:
    """A body of at most `limit` bytes; None if it is longer, and then it was thrown away.

    Raises `ClientDisconnect` if the client went before its end.
    """
    length = request.headers.get("content-length")
    too_long = length is not None and (not length.isdigit() or int(length[:19]) > limit)
    data = bytearray()
    more = True
    while more and not too_long:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        data += message.get("body", b"")
        more = message.get("more_body", False)
        too_long = len(data) > limit
    if too_long and more:
        await _discard(request)
    return None if too_long else bytes(data)


async def _discard(request: Request) -> None:
    """Take in the rest of a request that was refused before its end.

    A connection closed on data still coming is reset, and the client would never see why it was refused.
    """
    left = LINGER_BYTES
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LINGER_SECONDS):
            while left > 0:
                message = await request.receive()
                left -= len(message.get("body", b""))
                if message["type"] == "http.disconnect" or not message.get("more_body"):
                    return


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _expect_keys(body: dict[str, Any], known: set[str]) -> None:
    unknown = sorted(set(body) - known)
    if unknown:
        raise Refused(400, f"unknown key {unknown[0][:80]!r}: there are {', '.join(sorted(known))}")


def _seconds(body: dict[str, Any], key: str, highest: float) -> float | None:
    value = body.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= highest:
        raise Refused(400, f"{key} must be above 0 and at most {highest:g} seconds, not {str(value)[:80]}")
    return float(value)
