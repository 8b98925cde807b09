"""Serve the pages, the API and /metrics on one port, inside the daemon's own event loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import uvicorn
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from daemon.config import WebSection
from daemon.errors import USAGE, UserError
from daemon.exporter import Exporter, render
from web.app import end_streams
from web.bind import is_loopback
from web.gatekeeper import LOOPBACK_HOSTS

GRACE_SECONDS = 3


class WebServer(uvicorn.Server):
    """uvicorn without its hold on signals: the daemon has its own."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield


def listen(web: WebSection) -> socket.socket:
    """Bind the port; raises `UserError` if that is not possible."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(web.host, web.port, type=socket.SOCK_STREAM)[
            0
        ]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise UserError(f"web.host {web.host}: {error.strerror}", USAGE) from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise UserError(
            f"the web page cannot listen on {web.host}:{web.port}: {error.strerror}; set web.port", USAGE
        ) from error
    listening.setblocking(False)
    return listening


def local_url(listening: socket.socket, root_path: str) -> str:
    """The address under which a command on this machine reaches the server."""
    host, port = listening.getsockname()[:2]
    if host in ("0.0.0.0", "::"):  # noqa: S104 - compared, not bound
        host = "127.0.0.1"
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{root_path}"


def allowed_hosts(web: WebSection) -> list[str]:
    """The names the page answers to: this machine, the address bound, and those configured."""
    own = [] if is_loopback(web.host) or web.host in ("0.0.0.0", "::") else [web.host]  # noqa: S104
    return [*LOOPBACK_HOSTS, *own, *web.allowed_hosts]


def add_metrics(app: FastAPI, exporter: Exporter) -> None:
    """Put the exporter's page at /metrics."""

    async def metrics(_: Request) -> Response:
        page = await asyncio.to_thread(render, exporter.samples())
        return Response(page, media_type=None, headers={"content-type": exporter.content_type})

    app.add_route("/metrics", metrics, methods=["GET"], include_in_schema=False)


def server(app: FastAPI) -> WebServer:
    """The server of an app, not yet running."""
    return WebServer(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="on",
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
    )


def end(app: FastAPI, running: WebServer) -> None:
    """Have the server stop: open event streams first, they would hold it."""
    end_streams(app)
    running.should_exit = True
