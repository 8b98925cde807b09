"""The HTTP side: an ASGI middleware that answers `/trimtab/v1` and holds the gate.

It sits outside vLLM's own key check, so it checks its own token, offered as `X-Trimtab-Token: TOKEN` or
`Authorization: Bearer TOKEN`.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import math
import time
from typing import Any

from trimtab_plugin import __version__, farewell
from trimtab_plugin.gate import MAX_LEASE_SECONDS, Gate
from trimtab_plugin.link import Answer, EngineLink, LinkError, RanksDiffer
from trimtab_plugin.ring import RING, Ring
from trimtab_plugin.settings import TokenFile, disabled, starts_closed
from trimtab_plugin.wire import (
    MAX_LEASE,
    App,
    Receive,
    Refused,
    Scope,
    Send,
    expect_keys,
    header,
    knobs_request,
    number,
    query_since,
    read_json,
    respond,
)

logger = logging.getLogger("vllm.trimtab")

PREFIX = "/trimtab"
ROUTES = {
    "/trimtab/v1/state": "GET",
    "/trimtab/v1/requests": "GET",
    "/trimtab/v1/knobs": "POST",
    "/trimtab/v1/gate": "POST",
}
GATED = (
    "/v1",
    "/v2",
    "/inference/v1",
    "/cohere/v2",
    "/generate",
    "/invocations",
    "/pooling",
    "/classify",
    "/score",
    "/rerank",
)
"""Paths that make work for the engine, themselves and below; `/health`, `/metrics` and the rest stay open."""

TOKEN_HEADER = b"x-trimtab-token"


class Middleware:
    """`--middleware trimtab_plugin.http.Middleware` of a vLLM server (0.28 to 0.32)."""

    def __init__(self, app: App, *, ring: Ring = RING, token: TokenFile | None = None) -> None:
        self._app = app
        self._off = disabled()
        self._ring = ring
        self._token = token or TokenFile()
        self._gate = Gate()
        self._change = asyncio.Lock()
        self._link: EngineLink | None = None
        self._lease_due: float | None = None
        self._watch: asyncio.Task[None] | None = None
        self._inside = 0
        self._starts_closed = starts_closed(now=time.time()) and not self._off

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._starts_closed:
            # With the first event, not with the process: a load of tens of minutes lies between, and is no part of
            # the lease.
            self._starts_closed = False
            self._gate.close(MAX_LEASE_SECONDS, retry_after=5)
        if scope["type"] == "lifespan" and not self._off:
            farewell.watch(self._gate)
        if self._off or scope["type"] not in ("http", "websocket"):
            return await self._app(scope, receive, send)
        path = scope["path"]
        root = scope.get("root_path", "")
        if root and path.startswith(root):
            path = path[len(root) :]
        if scope["type"] == "http" and (path == PREFIX or path.startswith(PREFIX + "/")):
            return await self._answer(path, scope, receive, send)
        if not is_gated(path):
            return await self._app(scope, receive, send)
        if self._gate.closed and not self._is_one_of_several(scope):
            offered = header(scope, TOKEN_HEADER)
            if not self._token.matches(offered):
                return await self._turn_away(scope, receive, send)
        # The engine's gauges do not know a request that is still being tokenised.
        self._inside += 1
        try:
            return await self._app(scope, receive, send)
        finally:
            self._inside -= 1

    def _is_one_of_several(self, scope: Scope) -> bool:
        """Open a gate that was closed at start where several API servers could not be opened together."""
        client = getattr(scope["app"].state, "engine_client", None)
        if client is None or EngineLink(client).api_servers == 1:
            return False
        logger.warning("trimtab: several API servers share no gate, so TRIMTAB_GATE=closed is not honoured")
        self._gate.open()
        return True

    async def _turn_away(self, scope: Scope, receive: Receive, send: Send) -> None:
        remaining = self._gate.lease_remaining_seconds or 0.0
        retry_after = max(1, math.ceil(min(self._gate.retry_after, remaining) or 1))
        body = {
            "error": {
                "message": "the server takes no new requests for the moment",
                "type": "overloaded",
                "code": 503,
            }
        }
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1013, "reason": "try again later"})
            return
        # The server may end while the gate is closed: no client is to send into a connection that closes just then.
        headers = {"Retry-After": str(retry_after), "Connection": "close"}
        await respond(send, 503, body, headers, unread=receive)

    async def _answer(self, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await self._route(path, scope, receive)
        except Refused as refused:
            unread = receive if refused.headers.get("Connection") == "close" else None
            await respond(send, refused.status, refused.body, refused.headers, unread=unread)
        except LinkError as error:
            await respond(send, 503, {"error": str(error)})
        except Exception as error:
            logger.exception("trimtab: %s failed", path)
            await respond(send, 500, {"error": f"the plugin failed: {type(error).__name__}: {error}"})
        else:
            await respond(send, 200, body)

    async def _route(self, path: str, scope: Scope, receive: Receive) -> dict[str, Any]:
        method = ROUTES.get(path)
        if method is None:
            raise Refused(404, f"no such path: {path}; there are {', '.join(ROUTES)}")
        if scope["method"] != method:
            raise Refused(
                405, f"{path} takes {method}, not {scope['method']}", {"Allow": method, "Connection": "close"}
            )
        self._authorise(scope, write=method == "POST")
        if path.endswith("/state"):
            return await self._state(scope)
        if path.endswith("/requests"):
            return await self._requests(scope)
        body = await read_json(scope, receive)
        if path.endswith("/knobs"):
            return await self._knobs(scope, body)
        return self._set_gate(scope, body)

    def _authorise(self, scope: Scope, *, write: bool) -> None:
        if not write and listens_on_loopback(scope):
            return
        problem = self._token.problem()
        if problem is not None:
            what = "changes are refused" if write else "it listens beyond loopback, so reads are refused too"
            raise Refused(403, f"{problem}; {what}", {"Connection": "close"})
        offered = header(scope, TOKEN_HEADER)
        if offered is None:
            bearer = header(scope, b"authorization") or b""
            offered = bearer[7:].strip() if bearer[:7].lower() == b"bearer " else None
        if not self._token.matches(offered):
            what = "missing" if offered is None else "wrong"
            raise Refused(
                401,
                f"the token is {what}: send the secret of TRIMTAB_TOKEN_FILE in the header X-Trimtab-Token",
                {"WWW-Authenticate": "Bearer", "Connection": "close"},
            )

    async def _state(self, scope: Scope) -> dict[str, Any]:
        link = self._engine(scope)
        answer = await self._read(link)
        return {
            "plugin": __version__,
            "engine": "vllm",
            "engine_version": engine_version(),
            "boot_id": answer["boot_id"],
            "epoch": answer["epoch"],
            "values": answer["values"],
            "ceilings": answer["ceilings"],
            "floors": answer["floors"],
            "mark": answer["mark"],
            "lease_remaining_seconds": answer["lease_remaining_seconds"],
            "gate": "closed" if self._gate.closed else "open",
            "requests_inside": self._inside if link.api_servers == 1 else None,
            "dp_ranks": link.ranks,
            "api_servers": link.api_servers,
            "scheduler": answer["scheduler"],
            "scheduler_known": answer["scheduler_known"],
        }

    async def _knobs(self, scope: Scope, body: dict[str, Any]) -> dict[str, Any]:
        request = knobs_request(body)
        link = self._engine(scope)
        refusal = link.refusal()
        async with self._change:
            try:
                answer = await link.call({**request, "refusal": refusal})
            except RanksDiffer as error:
                return await self._settle(link, request, error)
        self._learn(answer)
        if "error" in answer:
            raise Refused(answer["code"], answer["error"], epoch=answer["epoch"])
        return {key: answer[key] for key in ("epoch", "requested", "effective", "status", "reason")}

    async def _settle(self, link: EngineLink, request: dict[str, Any], error: RanksDiffer) -> dict[str, Any]:
        state = await link.settle()
        self._learn(state)
        return {
            "epoch": state["epoch"],
            "requested": request["values"],
            "effective": {
                name: state["values"][name] for name in request["values"] if name in state["values"]
            },
            "status": "refused",
            "reason": f"{error}; all of them are back on their launch values",
        }

    async def _requests(self, scope: Scope) -> dict[str, Any]:
        since = query_since(scope)
        ring = self._ring
        if ring.problem is not None:
            raise Refused(503, ring.problem)
        if not ring.attached:
            raise Refused(
                503,
                "no request timings: is --disable-log-stats set, or trimtab not named in VLLM_PLUGINS?",
            )
        link = self._engine(scope)
        if link.api_servers > 1:
            raise Refused(
                503,
                f"no request timings: each of {link.api_servers} API servers sees only its own requests",
            )
        # Everything received before the engine's answer can be told its epoch for certain, a lapsed lease
        # included.
        await self._read(link)
        ring.flush(ring.epochs.known_until)
        return {"now": time.time(), **ring.page(since)}

    def _set_gate(self, scope: Scope, body: dict[str, Any]) -> dict[str, Any]:
        expect_keys(body, {"state", "lease_seconds", "retry_after"})
        state = body.get("state")
        if state not in ("open", "closed"):
            raise Refused(400, f'state must be "open" or "closed", not {state!r}')
        link = self._engine(scope)
        if link.api_servers > 1:
            raise Refused(
                503, f"the gate cannot be shared by {link.api_servers} API servers: use --api-server-count 1"
            )
        if state == "closed":
            lease = number(body, "lease_seconds", MAX_LEASE_SECONDS)
            if lease is None:
                raise Refused(400, f"a closed gate needs lease_seconds, at most {MAX_LEASE_SECONDS:g}")
            retry_after = number(body, "retry_after", MAX_LEASE)
            self._gate.close(lease, 1.0 if retry_after is None else retry_after)
        else:
            self._gate.open()
        return {
            "gate": "closed" if self._gate.closed else "open",
            "lease_remaining_seconds": self._gate.lease_remaining_seconds,
            "retry_after": self._gate.retry_after,
        }

    def _engine(self, scope: Scope) -> EngineLink:
        client = getattr(scope["app"].state, "engine_client", None)
        if client is None:
            raise Refused(503, "the engine is not ready yet")
        if self._link is None:
            self._link = EngineLink(client)
        return self._link

    async def _read(self, link: EngineLink) -> Answer:
        """Read the engine's state and learn its epochs; this expires leases."""
        try:
            answer = await link.call({"op": "state"})
        except RanksDiffer:
            answer = await link.settle()
        if "error" in answer:
            raise Refused(answer["code"], answer["error"])
        self._learn(answer)
        return answer

    def _learn(self, answer: Answer) -> None:
        self._ring.epochs.learn([(epoch, start) for epoch, start in answer["history"]], answer["now"])
        remaining = answer.get("lease_remaining_seconds")
        if "error" not in answer:
            self._lease_due = None if remaining is None else time.monotonic() + remaining
            if self._lease_due is not None and (self._watch is None or self._watch.done()):
                self._watch = asyncio.get_running_loop().create_task(self._watch_lease())

    async def _watch_lease(self) -> None:
        """Ask the engine when its lease has run out: an idle one would not notice by itself."""
        while self._lease_due is not None and self._link is not None:
            wait = self._lease_due - time.monotonic()
            if wait > -0.01:
                await asyncio.sleep(max(0.0, wait) + 0.02)
                continue
            try:
                await self._read(self._link)
            except (LinkError, Refused) as error:
                # The engine expires the lease by itself before its next step; the next read will learn of it.
                logger.warning("trimtab: %s", error)
                self._lease_due = None


def is_gated(path: str) -> bool:
    """Say whether `path` makes work for the engine."""
    return any(path == gated or path.startswith(gated + "/") for gated in GATED)


def listens_on_loopback(scope: Scope) -> bool:
    """Say whether the server was told to listen on a loopback address or a Unix socket, and nowhere else."""
    args = getattr(scope["app"].state, "args", None)
    if getattr(args, "uds", None):
        return True
    host = getattr(args, "host", None)
    if not host:
        return False
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def engine_version() -> str:
    """Return the version of the vLLM this process runs."""
    import vllm  # only in a server

    return str(vllm.__version__)
