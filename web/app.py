"""Assemble the face: API, pages, event stream, behind the gatekeeper."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from importlib.metadata import version

from fastapi import FastAPI, Request, Response
from fastapi.exception_handlers import http_exception_handler
from fastapi.exceptions import RequestValidationError
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from change.engine import EngineError, EngineUnreachable
from store import Store, StoreError
from web.alertmanager_route import alertmanager_routes
from web.api import reading_routes, writing_routes
from web.body import Body, NotFound, Refused
from web.feed import Feed
from web.gatekeeper import Gatekeeper, inner_path, problem
from web.pages import HERE, login_routes, missing_page, page_routes
from web.run_api import reading_run_routes, writing_run_routes
from web.sessions import Sessions


def create_app(
    body: Body,
    store: Store,
    token: str | None,
    allowed_hosts: Sequence[str] = (),
    root_path: str = "",
    clock: Callable[[], float] = time.time,
) -> FastAPI:
    """Build the web application.

    `allowed_hosts` are names (with or without a port) under which it may be reached, loopback if empty; `*` allows
    every one. `root_path` is the sub-path a proxy serves it under, stripped by the proxy or not. `clock` is the
    daemon's, in Unix seconds. Run it with its lifespan on, and call `end_streams` before the server shuts down.
    """
    root_path = root_path.rstrip("/")
    sessions = None if token is None else Sessions(token, clock)
    feed = Feed(body, store, clock)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        beating = asyncio.create_task(feed.run(), name="web feed")
        try:
            yield
        finally:
            feed.close()
            beating.cancel()
            with suppress(asyncio.CancelledError):
                await beating

    app = FastAPI(
        title="Trimtab",
        summary="What the daemon sees, tries, decides and changes",
        version=version("trimtab"),
        openapi_url="/api/openapi.json",
        # Their pages load scripts from a CDN; data centres are offline.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    app.state.feed = feed
    app.include_router(reading_routes(body, store, feed))
    app.include_router(writing_routes(body))
    app.include_router(reading_run_routes(body, store))
    app.include_router(writing_run_routes(body))
    app.include_router(alertmanager_routes(body))
    app.include_router(page_routes(body, store, feed))
    if sessions is not None:
        app.include_router(login_routes(sessions, root_path))
    app.mount("/static", StaticFiles(directory=HERE / "static"))
    app.add_middleware(Gatekeeper, sessions=sessions, allowed_hosts=allowed_hosts, root_path=root_path)
    _explain_errors(app)
    return app


def end_streams(app: FastAPI) -> None:
    """End the open event streams; a server that waits for its connections would otherwise never stop."""
    feed: Feed = app.state.feed
    feed.close()


def _explain_errors(app: FastAPI) -> None:
    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        path = inner_path(request.scope)
        if path.startswith(("/api/", "/static/")) or "text/html" not in request.headers.get("accept", ""):
            return await http_exception_handler(request, error)
        return missing_page(request, str(error.detail), error.status_code)

    @app.exception_handler(RequestValidationError)
    async def senseless(_: Request, error: RequestValidationError) -> Response:
        # In words, and without the input: that may hold a NaN, which is not JSON.
        return problem(422, "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()))

    @app.exception_handler(Refused)
    async def refused(_: Request, error: Refused) -> Response:
        return problem(409, str(error))

    @app.exception_handler(NotFound)
    async def not_found(_: Request, error: NotFound) -> Response:
        return problem(404, str(error))

    @app.exception_handler(EngineError)
    async def engine_failed(_: Request, error: EngineError) -> Response:
        return problem(503 if isinstance(error, EngineUnreachable) else 502, str(error))

    @app.exception_handler(StoreError)
    async def store_failed(_: Request, error: StoreError) -> Response:
        return problem(503, str(error))
