"""The JSON API under `/api/v1`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Path, Query
from fastapi.responses import JSONResponse
from fastapi.sse import EventSourceResponse, ServerSentEvent

from store import Store
from web import alert_shapes, reads, shapes
from web.body import Body
from web.feed import Feed
from web.plain import plain

MAX_ID = 2**63 - 1
Id = Annotated[int, Path(ge=1, le=MAX_ID)]
Limit = Annotated[int, Query(ge=1, le=500)]

PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": shapes.Problem, "description": "The Host is not allowed, or the body is not JSON"},
    401: {"model": shapes.Problem, "description": "A token is configured and was not given"},
    403: {"model": shapes.Problem, "description": "The Origin is not allowed"},
    422: {"model": shapes.Problem, "description": "The request makes no sense"},
}
REFUSALS: dict[int | str, dict[str, Any]] = {
    409: {
        "model": shapes.Problem,
        "description": "The daemon refuses: the mode, the lock, the journal, the bounds",
    },
    413: {"model": shapes.Problem, "description": "The body is too large"},
    415: {"model": shapes.Problem, "description": "The content type is not application/json"},
    502: {"model": shapes.Problem, "description": "The engine did not do it"},
    503: {"model": shapes.Problem, "description": "The engine is unreachable"},
}
ABSENT: dict[int | str, dict[str, Any]] = {
    404: {"model": shapes.Problem, "description": "There is no such thing"}
}
ENGINE_ERRORS: dict[int | str, dict[str, Any]] = {status: REFUSALS[status] for status in (502, 503)}
DONE: dict[int | str, dict[str, Any]] = {200: {"description": "Done; what came of it"}}


def reading_routes(body: Body, store: Store, feed: Feed) -> APIRouter:
    """Build the routes that change nothing.

    They are coroutines on purpose: the store is then used from the event loop's thread alone, as the daemon does.
    """
    router = APIRouter(prefix="/api/v1", tags=["read"], responses=PROBLEMS)

    @router.get("/live", responses={200: {"model": shapes.Live}})
    async def live() -> JSONResponse:
        """Tell what is true now."""
        return JSONResponse(feed.look())

    @router.get("/trend")
    async def trend() -> shapes.Trend:
        """Return the last quarter of an hour of the live figures."""
        return shapes.Trend.model_validate(feed.trend.as_columns())

    @router.get("/health")
    async def health() -> shapes.Health:
        """Tell whether the daemon works; needs no token."""
        now = shapes.Live.model_validate(feed.look())
        failed = sum(source.success is False for source in now.sources)
        degraded = failed > 0 or now.engine.reachable is not True
        return shapes.Health(
            status="degraded" if degraded else "ok",
            engine_reachable=now.engine.reachable,
            sources_failed=failed,
        )

    @router.get("/campaigns")
    async def campaigns(limit: Limit = 50) -> list[shapes.CampaignSummary]:
        """List campaigns, newest first."""
        with store.reading() as session:
            return reads.campaigns(session, limit)

    @router.get("/campaigns/{id}", responses=ABSENT)
    async def campaign(id: Id) -> shapes.CampaignDetail:
        """Return one campaign with its trials, pairs, windows and decisions."""
        with store.reading() as session:
            found = reads.campaign(session, id)
        if found is None:
            raise HTTPException(404, f"there is no campaign {id}")
        return found

    @router.get("/journal")
    async def journal(
        limit: Limit = 100, before: Annotated[int | None, Query(ge=1, le=MAX_ID)] = None
    ) -> list[shapes.JournalEntry]:
        """List journal entries, newest first."""
        with store.reading() as session:
            return reads.journal(session, limit, before)

    @router.get("/knobs", responses={200: {"model": list[shapes.Knob]}, **ENGINE_ERRORS})
    async def knobs() -> JSONResponse:
        """List the knobs as they apply to this engine."""
        return JSONResponse(plain(await body.knobs()))

    @router.get("/alerts", responses={200: {"model": alert_shapes.Alerts}})
    async def alerts() -> JSONResponse:
        """List current alerts, the worst first, and the rules with their health."""
        return JSONResponse(plain(body.alerts()))

    @router.get("/approvals", responses={200: {"model": list[shapes.Approval]}})
    async def approvals() -> JSONResponse:
        """List what waits for a person's answer."""
        look = feed.look()
        pending = look.get("pending")
        return JSONResponse(look.get("approvals") or ([] if pending is None else [pending]))

    @router.get("/events", response_class=EventSourceResponse)
    async def events() -> AsyncIterator[ServerSentEvent]:
        """Stream `live` each second, and `trials` when something new is stored."""
        async for event in feed.events():
            yield event

    return router


def writing_routes(body: Body) -> APIRouter:
    """Build the routes that order a change."""
    router = APIRouter(prefix="/api/v1", tags=["write"], responses=PROBLEMS | REFUSALS)

    @router.post("/apply", responses=DONE)
    async def apply(order: shapes.Apply) -> JSONResponse:
        """Apply knob values by hand."""
        return JSONResponse(plain(await body.apply(order.values, restart=order.restart)))

    @router.post("/rollback", responses=DONE | ABSENT)
    async def rollback(order: shapes.Rollback) -> JSONResponse:
        """Undo the last journal entries."""
        return JSONResponse(plain(await body.rollback(order.n)))

    @router.post("/host/apply", responses=DONE)
    async def host_apply(order: shapes.HostApply) -> JSONResponse:
        """Change knobs of the host lane by hand."""
        return JSONResponse(plain(await body.host_apply(order.changes)))

    @router.post("/host/rollback", responses=DONE | ABSENT)
    async def host_rollback(order: shapes.Rollback) -> JSONResponse:
        """Undo the last changes of the host lane."""
        return JSONResponse(plain(await body.host_rollback(order.n)))

    @router.post("/pause", responses=DONE)
    async def pause(order: shapes.Nothing) -> JSONResponse:
        """Stop tuning; a running trial goes back to the incumbent."""
        return JSONResponse(plain(await body.pause()))

    @router.post("/resume", responses=DONE)
    async def resume(order: shapes.Nothing) -> JSONResponse:
        """Let tuning go on."""
        return JSONResponse(plain(await body.resume()))

    @router.post("/detach", responses=DONE)
    async def detach(order: shapes.Nothing) -> JSONResponse:
        """Put the launch values back and leave no trace."""
        return JSONResponse(plain(await body.detach()))

    @router.post("/tune", responses=DONE)
    async def tune(order: shapes.Tune) -> JSONResponse:
        """Start a campaign."""
        return JSONResponse(plain(await body.tune(order.mode, order.minutes, order.restarts)))

    @router.post("/approvals/{id}", responses=DONE | ABSENT)
    async def answer(id: Annotated[str, Path(max_length=200)], order: shapes.Answer) -> JSONResponse:
        """Answer a pending approval."""
        act = body.approve if order.answer == "approve" else body.decline
        return JSONResponse(plain(await act(id)))

    return router
