"""Who may ask: Host, Origin, content type, size and token are checked before any route runs.

A plain ASGI wrapper, because Starlette's function middleware would hold event streams back.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote, urlsplit

from fastapi import HTTPException
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from web.sessions import COOKIE, Sessions

LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")
MAX_BODY_BYTES = 64 * 1024
LARGER_BODIES = {"/api/v1/alertmanager": 1024 * 1024}
"""Paths whose bodies may be larger, in bytes."""
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
DEFAULT_PORTS = {"http": 80, "https": 443}

HEADERS = {
    "content-security-policy": "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    # Not no-referrer: under it browsers send "Origin: null" with the login form.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class Gatekeeper:
    """Wrap an app: refuse strange hosts, foreign origins, writes that are not JSON, and the unknown."""

    def __init__(
        self, app: ASGIApp, sessions: Sessions | None, allowed_hosts: Sequence[str], root_path: str
    ) -> None:
        self.app = app
        self.root_path = root_path
        self.sessions = sessions
        self.allowed = tuple(host.lower() for host in allowed_hosts) or LOOPBACK_HOSTS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope = self._placed(scope)
        path = inner_path(scope)

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("cache-control", "no-cache" if path.startswith("/static/") else "no-store")
            await send(message)

        refusal = self._refusal(scope, path)
        if refusal is not None:
            await refusal(scope, receive, send_guarded)
            return
        await self.app(scope, limited(receive, most_bytes(path)), send_guarded)

    def _placed(self, scope: Scope) -> Scope:
        """Put the app under its sub-path, whether or not the proxy stripped it, in the form ASGI wants."""
        root, path = self.root_path, str(scope["path"])
        if not root:
            return scope
        inside = path == root or path.startswith(root + "/")
        return dict(scope, root_path=root, path=path if inside else root + path)

    def _refusal(self, scope: Scope, path: str) -> Response | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "").lower()
        if not self._host_allowed(host):
            return problem(400, f"host {host!r} is not in web.allowed_hosts")
        origin = headers.get("origin")
        if origin is not None and not self._origin_allowed(origin.lower(), host):
            return problem(403, f"origin {origin!r} is neither this address nor in web.allowed_hosts")
        if scope["method"] not in SAFE_METHODS:
            if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
                return problem(403, "another site may not write here")
            if int_or_zero(headers.get("content-length")) > most_bytes(path):
                return problem(413, too_large(most_bytes(path)))
            media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
            if path != "/login" and media_type != "application/json":
                return problem(
                    415, "a write must have content type application/json, with at least {} as body"
                )
        if path == "":
            # A sub-path without its last slash would make every relative link wrong.
            return redirect(scope["path"].rsplit("/", 1)[-1] + "/")
        return self._stranger(scope, headers, path)

    def _stranger(self, scope: Scope, headers: Headers, path: str) -> Response | None:
        if self.sessions is None or path in ("/login", "/api/v1/health") or path.startswith("/static/"):
            return None
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.sessions.token_matches(given.strip()):
            return None
        if self.sessions.valid(cookie_parser(headers.get("cookie", "")).get(COOKIE, "")):
            return None
        # /metrics too: a Prometheus that is led to the form gets a page, and a failure that names no token.
        if path.startswith("/api/") or path == "/metrics" or scope["method"] not in SAFE_METHODS:
            refusal = problem(401, "give the token as 'Authorization: Bearer TOKEN', or sign in at login")
            refusal.headers["www-authenticate"] = "Bearer"
            return refusal
        up = "../" * (path.count("/") - 1)
        return redirect(f"{up}login?next={quote(path.removeprefix('/'), safe='')}")

    def _host_allowed(self, host: str) -> bool:
        return "*" in self.allowed or host in self.allowed or without_port(host) in self.allowed

    def _origin_allowed(self, origin: str, host: str) -> bool:
        """Compare with ports, so that another program on this machine is another origin."""
        parts = urlsplit(origin)
        default = DEFAULT_PORTS.get(parts.scheme)
        if default is None or not parts.netloc:
            return False
        same = with_port(parts.netloc, default)
        named = (with_port(entry, default) for entry in self.allowed if entry != "*")
        return same == with_port(host, default) or same in named


def inner_path(scope: Scope) -> str:
    """Return the path below `root_path`; empty for a sub-path without its last slash."""
    return str(scope["path"]).removeprefix(str(scope.get("root_path", "")))


def without_port(host: str) -> str:
    """Strip the port of a Host header, IPv6 brackets kept."""
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() and (":" not in name or name.endswith("]")) else host


def with_port(host: str, default: int) -> str:
    """Write a host with its port always there."""
    return host if without_port(host) != host else f"{host}:{default}"


def int_or_zero(text: str | None) -> int:
    """Read a Content-Length; what is not a number counts as unknown and is limited while it is read."""
    return int(text) if text is not None and text.isascii() and text.isdigit() else 0


def most_bytes(path: str) -> int:
    """How large a body may be."""
    return LARGER_BODIES.get(path, MAX_BODY_BYTES)


def too_large(limit: int) -> str:
    """Say that a body is."""
    return f"the body is over {limit} bytes"


def limited(receive: Receive, limit: int) -> Receive:
    """Count the body as it arrives, for those who send no length."""
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > limit:
            raise HTTPException(413, too_large(limit))
        return message

    return counted


def problem(status: int, detail: str) -> Response:
    """Answer with a reason in the shape every error of the API has."""
    return JSONResponse({"detail": detail}, status)


def redirect(location: str) -> Response:
    """Send the browser to a relative address, so that a proxy's prefix survives."""
    return Response(status_code=303, headers={"location": location})
