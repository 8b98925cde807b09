"""`POST /api/v1/alertmanager`: where Alertmanager's webhook posts to."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from store import StoreError
from web import shapes
from web.api import PROBLEMS
from web.body import Body, Senseless, TryLater

AT_ONCE = 8
"""Posts that are read at the same time, each of at most a megabyte; a flood of more is told to come again."""
READ_SECONDS = 10.0
RETRY_SECONDS = 10.0

_POST_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "Alertmanager's webhook, version 4; fields that are not named here are kept",
    "required": ["version", "alerts"],
    "properties": {
        "version": {"type": "string", "enum": ["4"]},
        "alerts": {"type": "array", "items": {"type": "object"}},
    },
}


class Taken(BaseModel):
    """What came of a post; all of it is stored, save for what was left out."""

    taken: int
    """Alerts in it."""
    new: int
    """Those that fire and were not known: once for each fingerprint and start."""
    resolved: int
    """Those that are over, and were not known to be."""
    own: int
    """New ones that Trimtab itself had sent to Alertmanager: they start nothing a second time."""
    left_out: int
    """Those without labels or a status, those beyond 1,000, and those that Alertmanager says it cut off."""


def alertmanager_routes(body: Body) -> APIRouter:
    """Build the route. It answers 200 only once the alerts are stored.

    What may be sent again is answered 503 with Retry-After, and never 429: Alertmanager tries again after a 5xx alone,
    and drops the notification until the next group interval after anything else.
    """
    router = APIRouter(prefix="/api/v1", tags=["write"])
    reading = asyncio.Semaphore(AT_ONCE)

    @router.post(
        "/alertmanager",
        responses={
            **PROBLEMS,
            200: {"model": Taken},
            408: {"model": shapes.Problem, "description": "The body did not come in time"},
            413: {"model": shapes.Problem, "description": "The body is over 1 MiB"},
            415: {"model": shapes.Problem, "description": "The content type is not application/json"},
            503: {"model": shapes.Problem, "description": "Nothing was stored: send it again"},
        },
        openapi_extra={
            "requestBody": {"required": True, "content": {"application/json": {"schema": _POST_SCHEMA}}}
        },
    )
    async def alertmanager(request: Request) -> JSONResponse:
        """Take alerts of others, from Alertmanager's webhook."""
        if reading.locked():
            raise _later("too many posts at once: nothing was stored, send it again", RETRY_SECONDS)
        async with reading:
            try:
                async with asyncio.timeout(READ_SECONDS):
                    content = await request.body()
            except TimeoutError as error:
                raise HTTPException(408, f"the body did not come within {READ_SECONDS:g} s") from error
            try:
                return JSONResponse(await body.alertmanager(content))
            except Senseless as error:
                raise HTTPException(422, str(error)) from error
            except TryLater as error:
                raise _later(str(error), error.seconds) from error
            except StoreError as error:
                raise _later(f"nothing was stored: {error}", RETRY_SECONDS) from error

    return router


def _later(text: str, seconds: float) -> HTTPException:
    return HTTPException(503, text, {"Retry-After": str(round(seconds))})
